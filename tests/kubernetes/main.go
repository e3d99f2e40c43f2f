// Judges docs/kubernetes/ by the code that reads it in a cluster: Kubernetes' evaluator of admission policies, and
// the types, the merge and the expressions of Argo Workflows. Prints one line for each fact that holds.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"strings"

	argo "github.com/argoproj/argo-workflows/v3/pkg/apis/workflow/v1alpha1"
	"github.com/argoproj/argo-workflows/v3/util/expr/argoexpr"
	"github.com/argoproj/argo-workflows/v3/util/expr/env"
	admissionregistration "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func hold(fact string, holds bool) {
	if !holds {
		log.Fatal("does not hold: ", fact)
	}
	log.Print(fact)
}

// read parses the documents of a file strictly: an unknown field is an error.
func read(path string, documents ...any) {
	raw, err := os.ReadFile(path)
	must(err)
	parts := strings.Split(string(raw), "\n---\n")
	hold(path+" has the documents that it should have", len(parts) == len(documents))
	for i, document := range documents {
		must(yaml.UnmarshalStrict([]byte(parts[i]), document))
	}
}

// lost judges the patch of Argo Workflows' settings, as its controller merges it (workflow/controller/operator.go,
// mergedTemplateDefaultsInto and processNodeRetries), into a template as Kubeflow Pipelines compiles it.
func lost(path string) {
	var settings core.ConfigMap
	read(path, &settings)
	var defaults argo.Workflow
	must(yaml.UnmarshalStrict([]byte(settings.Data["workflowDefaults"]), &defaults))
	retry := argo.RetryStrategy{Backoff: &argo.Backoff{Duration: "60", MaxDuration: "5184000"}}
	must(json.Unmarshal([]byte(`"{{inputs.parameters.retry-max-count}}"`), &retry.Limit))
	own, err := json.Marshal(argo.Template{Name: "retry-system-container-impl", RetryStrategy: &retry})
	must(err)
	shared, err := json.Marshal(defaults.Spec.TemplateDefaults)
	must(err)
	merged, err := strategicpatch.StrategicMergePatch(shared, own, argo.Template{})
	must(err)
	var template argo.Template
	must(json.Unmarshal(merged, &template))
	strategy := template.RetryStrategy
	hold("a task keeps its own number of retries", strategy.Limit.StrVal == retry.Limit.StrVal)
	hold("a task keeps its own time for retries", strategy.Backoff.MaxDuration == "5184000")
	hold("errors and failures may be retried", strategy.RetryPolicyActual() == argo.RetryPolicyAlways)
	for _, loss := range []struct {
		what, status, exitCode, message string
		retried                         bool
	}{
		{"a pod that is gone", "Error", "-1", "pod deleted", true},
		{"a pod that was told to stop", "Failed", "143", "main: Error (exit code 143)", true},
		{"a node that shut down", "Failed", "-1", "Pod was terminated in response to imminent node shutdown.", true},
		{"a training that failed", "Failed", "1", "main: Error (exit code 1)", false},
		{"a part of the pipeline that failed", "Failed", "-1", "", false},
	} {
		scope := map[string]any{
			"lastRetry.status": loss.status, "lastRetry.exitCode": loss.exitCode, "lastRetry.message": loss.message,
		}
		retried, err := argoexpr.EvalBool(strategy.Expression, env.GetFuncMap(scope))
		must(err)
		verb := map[bool]string{true: "is retried: ", false: "is not retried: "}[loss.retried]
		hold(verb+loss.what, retried == loss.retried)
	}
}

// locked judges the policy for pods with TPU chips, on pods as Argo Workflows makes them.
func locked(path string) {
	var policy admissionregistration.MutatingAdmissionPolicy
	var binding admissionregistration.MutatingAdmissionPolicyBinding
	read(path, &policy, &binding)
	hold("the policy is bound", binding.Spec.PolicyName == policy.Name)
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	must(err)
	mutation := compiler.CompileMutatingEvaluator(
		&patch.JSONPatchCondition{Expression: policy.Spec.Mutations[0].JSONPatch.Expression},
		cel.OptionalVariableDeclarations{HasPatchTypes: true}, environment.StoredExpressions)
	var conditions []cel.ExpressionAccessor
	for _, each := range policy.Spec.MatchConditions {
		condition := matchconditions.MatchCondition(each)
		conditions = append(conditions, &condition)
	}
	compiled := compiler.CompileCondition(conditions, cel.OptionalVariableDeclarations{}, environment.StoredExpressions)
	matcher := matchconditions.NewMatcher(compiled, policy.Spec.FailurePolicy, "policy", "mutate", policy.Name)
	scheme := runtime.NewScheme()
	must(core.AddToScheme(scheme))
	objects := admission.NewObjectInterfacesFromScheme(scheme)
	for _, chip := range []core.ResourceName{"google.com/tpu", "nvidia.com/gpu"} {
		limits := core.ResourceList{chip: resource.MustParse("4")}
		pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "pod", Namespace: "kubeflow"}}
		// As a cluster whose defaults are hostUsers: false and runAsNonRoot: true makes it.
		no, yes := false, true
		pod.Spec.HostUsers = &no
		pod.Spec.Containers = []core.Container{
			{Name: "wait"},
			{
				Name: "main", Resources: core.ResourceRequirements{Limits: limits},
				SecurityContext: &core.SecurityContext{RunAsNonRoot: &yes},
			},
		}
		kind, pods := core.SchemeGroupVersion.WithKind("Pod"), core.SchemeGroupVersion.WithResource("pods")
		attributes := &admission.VersionedAttributes{
			Attributes: admission.NewAttributesRecord(pod, nil, kind, "kubeflow", "pod", pods, "", admission.Create,
				&meta.CreateOptions{}, false, nil),
			VersionedKind: kind, VersionedObject: pod,
		}
		match := matcher.Match(context.Background(), attributes, nil, nil)
		must(match.Error)
		hold("the policy is for TPU chips alone: "+string(chip), match.Matches == (chip == "google.com/tpu"))
		if !match.Matches {
			continue
		}
		request := patch.Request{MatchedResource: pods, VersionedAttributes: attributes, ObjectInterfaces: objects}
		patched, err := patch.NewJSONPatcher(mutation).Patch(context.Background(), request, celconfig.RuntimeCELCostBudget)
		must(err)
		containers := patched.(*core.Pod).Spec.Containers
		added := containers[1].SecurityContext.Capabilities.Add
		hold("the main container may lock memory", len(added) == 2 && added[0] == "SYS_RESOURCE")
		hold("its root may write to the folders of other users", len(added) == 2 && added[1] == "DAC_OVERRIDE")
		hold("the other container is as it was", containers[0].SecurityContext == nil)
		users := patched.(*core.Pod).Spec.HostUsers
		hold("its root is the node's, whatever the cluster's default", users != nil && *users)
		hold("it may run as root, whatever the cluster's default", containers[1].SecurityContext.RunAsNonRoot == nil)
	}
}

func main() {
	log.SetFlags(0)
	lost(os.Args[1] + "/workflow-defaults.yaml")
	locked(os.Args[1] + "/tpu-locked-memory.yaml")
	var root core.ConfigMap
	read(os.Args[1]+"/pipeline-root.yaml", &root)
	var volume core.PersistentVolumeClaim
	read(os.Args[1]+"/volume.yaml", &volume)
}
