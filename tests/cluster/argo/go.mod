// Argo Workflows, which its own go.mod builds: the Makefile copies it, since a module has no symbolic links.
module msinet/tests/cluster/argo

go 1.26.0

require github.com/argoproj/argo-workflows/v4 v4.0.5
