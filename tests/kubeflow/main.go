// Kubeflow's own compiler takes a compiled pipeline to an Argo workflow, Argo's own validation reads that, and
// Kubeflow's own importer resolves the URI of every imported artifact. No cluster is needed, and nothing is run.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"reflect"
	"sort"
	"strings"
	"unsafe"

	"github.com/argoproj/argo-workflows/v3/workflow/validate"
	"github.com/kubeflow/pipelines/api/v2alpha1/go/pipelinespec"
	"github.com/kubeflow/pipelines/backend/src/v2/compiler"
	"github.com/kubeflow/pipelines/backend/src/v2/compiler/argocompiler"
	"github.com/kubeflow/pipelines/backend/src/v2/component"
	"github.com/kubeflow/pipelines/backend/src/v2/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"sigs.k8s.io/yaml"
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = judge(string(text))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// judge compiles the two documents of a compiled pipeline, and imports what it imports.
func judge(text string) error {
	first, second, _ := strings.Cut(text, "\n---\n")
	content, spec, platforms := &structpb.Struct{}, &pipelinespec.PipelineSpec{}, &pipelinespec.PlatformSpec{}
	for _, document := range []struct {
		text string
		into proto.Message
	}{{first, content}, {first, spec}, {second, platforms}} {
		data, err := yaml.YAMLToJSON([]byte(document.text))
		if err != nil {
			return err
		}
		if err := protojson.Unmarshal(data, document.into); err != nil {
			return err
		}
	}
	job := &pipelinespec.PipelineJob{PipelineSpec: content}
	workflow, err := argocompiler.Compile(job, platforms.GetPlatforms()["kubernetes"], nil)
	if err != nil {
		return err
	}
	// Lint: the arguments of the run are not there yet.
	if _, err := validate.ValidateWorkflow(nil, nil, workflow, validate.ValidateOpts{Lint: true}); err != nil {
		return err
	}
	fmt.Printf("an Argo workflow of %d templates\n", len(workflow.Spec.Templates))
	return importAll(spec)
}

// importAll runs the importers of every DAG, each with a value for every input that the DAG declares.
func importAll(spec *pipelinespec.PipelineSpec) error {
	deployment, err := compiler.GetDeploymentConfig(spec)
	if err != nil {
		return err
	}
	dags := map[string]*pipelinespec.ComponentSpec{"root": spec.GetRoot()}
	for name, component := range spec.GetComponents() {
		dags[name] = component
	}
	for _, around := range sorted(dags) {
		for _, name := range sorted(dags[around].GetDag().GetTasks()) {
			task := dags[around].GetDag().GetTasks()[name]
			imported := spec.GetComponents()[task.GetComponentRef().GetName()]
			importer := deployment.GetExecutors()[imported.GetExecutorLabel()].GetImporter()
			if importer == nil {
				continue
			}
			uri, err := importOne(dags[around], imported, importer, task)
			if err != nil {
				return fmt.Errorf("task %q of %s: %w", name, around, err)
			}
			fmt.Printf("task %q of %s imports %s\n", name, around, uri)
		}
	}
	return nil
}

// importOne returns the URI of the artifact that Kubeflow's importer records for a task of the DAG `around`.
func importOne(around, imported *pipelinespec.ComponentSpec, importer *pipelinespec.PipelineDeploymentConfig_ImporterSpec, task *pipelinespec.PipelineTaskSpec) (string, error) {
	ctx, names := context.Background(), component.ImporterLauncherOptions{PipelineName: "pipeline", RunID: "run"}
	held, client, err := newStore()
	if err != nil {
		return "", err
	}
	run, err := client.GetPipeline(ctx, names.PipelineName, names.RunID, "", "", "gs://bucket/root")
	if err != nil {
		return "", err
	}
	inputs := map[string]*structpb.Value{}
	for name := range around.GetInputDefinitions().GetParameters() {
		inputs[name] = structpb.NewStringValue("gs://bucket/" + name)
	}
	parent, err := client.CreateExecution(ctx, run, &metadata.ExecutionConfig{
		TaskName: "dag", ExecutionType: metadata.DagExecutionTypeName, InputParameters: inputs,
	})
	if err != nil {
		return "", err
	}
	names.ParentDagID = parent.GetID()
	launcher := &component.ImportLauncher{}
	for field, value := range map[string]any{
		"component": imported, "importer": importer, "task": task, "importerLauncherOptions": names, "metadataClient": client,
	} {
		set(launcher, field, value)
	}
	if err := launcher.Execute(ctx); err != nil {
		return "", err
	}
	return held.artifacts[0].GetUri(), nil
}

// set writes a private field: the constructor of the importer asks for a cluster, which the importer does not use.
func set(target any, name string, value any) {
	field := reflect.ValueOf(target).Elem().FieldByName(name)
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(reflect.ValueOf(value))
}

func sorted[Value any](named map[string]Value) []string {
	names := make([]string, 0, len(named))
	for name := range named {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
