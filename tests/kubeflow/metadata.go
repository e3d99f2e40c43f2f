package main

import (
	"context"
	"net"
	"strconv"

	"github.com/kubeflow/pipelines/backend/src/v2/metadata"
	pb "github.com/kubeflow/pipelines/third_party/ml-metadata/go/ml_metadata"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// store is as much of an ML Metadata server as an importer asks, in memory.
type store struct {
	pb.UnimplementedMetadataStoreServiceServer
	types      map[string]int64
	contexts   []*pb.Context
	executions []*pb.Execution
	artifacts  []*pb.Artifact
}

// newStore serves a store on a free port of this machine, and returns Kubeflow's client of it.
func newStore() (*store, *metadata.Client, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	held, server := &store{types: map[string]int64{}}, grpc.NewServer()
	pb.RegisterMetadataStoreServiceServer(server, held)
	go server.Serve(listener)
	client, err := metadata.NewClient("127.0.0.1", strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
	return held, client, err
}

func (s *store) typeID(name string) *int64 {
	if _, known := s.types[name]; !known {
		s.types[name] = int64(len(s.types) + 1)
	}
	return proto.Int64(s.types[name])
}

func (s *store) GetContextType(_ context.Context, asked *pb.GetContextTypeRequest) (*pb.GetContextTypeResponse, error) {
	return &pb.GetContextTypeResponse{ContextType: &pb.ContextType{Id: s.typeID(asked.GetTypeName())}}, nil
}

func (s *store) GetArtifactType(_ context.Context, asked *pb.GetArtifactTypeRequest) (*pb.GetArtifactTypeResponse, error) {
	return &pb.GetArtifactTypeResponse{ArtifactType: &pb.ArtifactType{Id: s.typeID(asked.GetTypeName())}}, nil
}

func (s *store) PutExecutionType(_ context.Context, asked *pb.PutExecutionTypeRequest) (*pb.PutExecutionTypeResponse, error) {
	return &pb.PutExecutionTypeResponse{TypeId: s.typeID(asked.GetExecutionType().GetName())}, nil
}

func (s *store) GetContextByTypeAndName(_ context.Context, asked *pb.GetContextByTypeAndNameRequest) (*pb.GetContextByTypeAndNameResponse, error) {
	found := &pb.GetContextByTypeAndNameResponse{}
	for _, each := range s.contexts {
		if each.GetName() == asked.GetContextName() {
			found.Context = each
		}
	}
	return found, nil
}

func (s *store) PutContexts(_ context.Context, asked *pb.PutContextsRequest) (*pb.PutContextsResponse, error) {
	put := &pb.PutContextsResponse{}
	for _, each := range asked.GetContexts() {
		s.contexts = append(s.contexts, each)
		each.Id = proto.Int64(int64(len(s.contexts)))
		for name, id := range s.types {
			if id == each.GetTypeId() {
				each.Type = proto.String(name)
			}
		}
		put.ContextIds = append(put.ContextIds, each.GetId())
	}
	return put, nil
}

func (s *store) GetContextsByID(_ context.Context, asked *pb.GetContextsByIDRequest) (*pb.GetContextsByIDResponse, error) {
	found := &pb.GetContextsByIDResponse{}
	for _, id := range asked.GetContextIds() {
		found.Contexts = append(found.Contexts, s.contexts[id-1])
	}
	return found, nil
}

func (s *store) GetParentContextsByContext(context.Context, *pb.GetParentContextsByContextRequest) (*pb.GetParentContextsByContextResponse, error) {
	return &pb.GetParentContextsByContextResponse{}, nil
}

func (s *store) PutParentContexts(context.Context, *pb.PutParentContextsRequest) (*pb.PutParentContextsResponse, error) {
	return &pb.PutParentContextsResponse{}, nil
}

func (s *store) PutExecution(_ context.Context, asked *pb.PutExecutionRequest) (*pb.PutExecutionResponse, error) {
	execution := asked.GetExecution()
	if execution.Id == nil {
		s.executions = append(s.executions, execution)
		execution.Id = proto.Int64(int64(len(s.executions)))
	}
	for _, pair := range asked.GetArtifactEventPairs() {
		s.artifacts = append(s.artifacts, pair.GetArtifact())
	}
	return &pb.PutExecutionResponse{ExecutionId: execution.Id}, nil
}

func (s *store) GetExecutionsByID(_ context.Context, asked *pb.GetExecutionsByIDRequest) (*pb.GetExecutionsByIDResponse, error) {
	found := &pb.GetExecutionsByIDResponse{}
	for _, id := range asked.GetExecutionIds() {
		found.Executions = append(found.Executions, s.executions[id-1])
	}
	return found, nil
}

// GetContextsByExecution returns all contexts: there is one run.
func (s *store) GetContextsByExecution(context.Context, *pb.GetContextsByExecutionRequest) (*pb.GetContextsByExecutionResponse, error) {
	return &pb.GetContextsByExecutionResponse{Contexts: s.contexts}, nil
}

func (s *store) GetArtifactsByURI(context.Context, *pb.GetArtifactsByURIRequest) (*pb.GetArtifactsByURIResponse, error) {
	return &pb.GetArtifactsByURIResponse{}, nil
}
