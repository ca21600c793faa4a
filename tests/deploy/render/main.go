// Reads what is in deploy/ with the libraries of the tools that will: compose-go (Docker Compose), kustomize and Helm.
//
//	render compose FILE              the project as Compose sees it, as YAML
//	render kustomize FOLDER          the objects of a kustomization
//	render helm-lint FOLDER          what `helm lint --strict` says; ends with 1 if it finds anything worse than a hint
//	render helm-template FOLDER RELEASE [VALUES.yaml]
//
// The libraries and not the commands, because those take three times as long to build.
package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"sort"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/releaseutil"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// The release of Kubernetes that charts are rendered for.
const kubernetes = "v1.34.0"

func main() {
	if len(os.Args) < 3 {
		fail(fmt.Errorf("what is to be rendered?"))
	}
	var text string
	var err error
	switch arguments := os.Args[2:]; os.Args[1] {
	case "compose":
		text, err = compose(arguments[0])
	case "kustomize":
		text, err = kustomize(arguments[0])
	case "helm-lint":
		text, err = helmLint(arguments[0])
	case "helm-template":
		text, err = helmTemplate(arguments)
	default:
		err = fmt.Errorf("no such tool")
	}
	if err != nil {
		fail(err)
	}
	fmt.Print(text)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "render:", err)
	os.Exit(1)
}

func compose(file string) (string, error) {
	options, err := cli.NewProjectOptions([]string{file}, cli.WithInterpolation(true), cli.WithResolvedPaths(true))
	if err != nil {
		return "", err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return "", err
	}
	text, err := project.MarshalYAML()
	return string(text), err
}

func kustomize(folder string) (string, error) {
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return "", err
	}
	text, err := objects.AsYaml()
	return string(text), err
}

func helmLint(folder string) (string, error) {
	version, err := chartutil.ParseKubeVersion(kubernetes)
	if err != nil {
		return "", err
	}
	found := lint.AllWithKubeVersion(folder, nil, "default", version)
	var text strings.Builder
	for _, message := range found.Messages {
		fmt.Fprintln(&text, message)
	}
	if found.HighestSeverity > support.InfoSev {
		return "", fmt.Errorf("%s", text.String())
	}
	return text.String(), nil
}

// Renders as `helm template` does: values checked against the chart's schema, objects in the order of their installation.
func helmTemplate(arguments []string) (string, error) {
	chart, err := loader.Load(arguments[0])
	if err != nil {
		return "", err
	}
	values := chartutil.Values{}
	if len(arguments) > 2 {
		if values, err = chartutil.ReadValuesFile(arguments[2]); err != nil {
			return "", err
		}
	}
	version, err := chartutil.ParseKubeVersion(kubernetes)
	if err != nil {
		return "", err
	}
	if wanted := chart.Metadata.KubeVersion; wanted != "" && !chartutil.IsCompatibleRange(wanted, version.String()) {
		return "", fmt.Errorf("the chart is for Kubernetes %s, not for %s", wanted, version)
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	release := chartutil.ReleaseOptions{Name: arguments[1], Namespace: "default", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, release, capabilities)
	if err != nil {
		return "", err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return "", err
	}
	names := make([]string, 0, len(files))
	for name := range files {
		if path.Base(name) != "NOTES.txt" {
			names = append(names, name)
		} else if strings.TrimSpace(files[name]) == "" {
			return "", fmt.Errorf("%s is empty", name)
		}
	}
	sort.Strings(names)
	var text strings.Builder
	for _, name := range names {
		for _, manifest := range releaseutil.SplitManifests(files[name]) {
			fmt.Fprintf(&text, "---\n# %s\n%s\n", name, manifest)
		}
	}
	return text.String(), nil
}
