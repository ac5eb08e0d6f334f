package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"gopkg.in/yaml.v3"
)

// documents reads all documents of a YAML file.
func documents(data []byte) ([]any, error) {
	var out []any
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc any
		switch err := dec.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		}
		out = append(out, doc)
	}
}

// jobOf finds a job by its name: a key, or the name in the metadata of a document.
func jobOf(v any, name string) any {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			if found := jobOf(one, name); found != nil {
				return found
			}
		}
	case map[string]any:
		if meta, ok := v["metadata"].(map[string]any); ok && meta["name"] == name {
			return v
		}
		if job, ok := v[name].(map[string]any); ok {
			return job
		}
		for _, key := range []string{"jobs"} {
			if found := jobOf(v[key], name); found != nil {
				return found
			}
		}
	}
	return nil
}

// commands are the shell commands of a job, in their order: run of GitHub, script of
// GitLab, args of Kubernetes.
func commands(v any) []string {
	var out []string
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			out = append(out, commands(one)...)
		}
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			if !slices.Contains([]string{"run", "script", "args"}, key) {
				out = append(out, commands(v[key])...)
				continue
			}
			lines, ok := v[key].([]any)
			if !ok {
				lines = []any{v[key]}
			}
			for _, l := range lines {
				if text, ok := l.(string); ok {
					out = append(out, strings.TrimSuffix(text, "\n"))
				}
			}
		}
	}
	return out
}

// writeSnippet is the scripts' command "snippet FILE JOB OUT": it writes the commands
// that a CI file has for a job, as they stand there.
func writeSnippet(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: snippet FILE JOB OUT")
	}
	docs, err := documents([]byte(ts.ReadFile(args[0])))
	ts.Check(err)
	list := commands(jobOf(docs, args[1]))
	if len(list) == 0 {
		ts.Fatalf("%s has no commands of a job %s", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(strings.Join(list, "\n")+"\n"), 0o644))
}

// The examples share the blocks out between as many jobs as there are, and the study
// has a block for each.
func TestShardExamples(t *testing.T) {
	read := func(name, job string) map[string]any {
		data, err := os.ReadFile("../../examples/shards/" + name)
		if err != nil {
			t.Fatal(err)
		}
		docs, err := documents(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		found, ok := jobOf(docs, job).(map[string]any)
		if !ok {
			t.Fatalf("%s: no job %s", name, job)
		}
		return found
	}
	text, err := yaml.Marshal(read("ci-matrix.yml", "share")["strategy"])
	if err != nil || !strings.Contains(string(text), "share:\n        - 1\n        - 2\n        - 3\n        - 4\n") {
		t.Errorf("the matrix is %s, %v", text, err)
	}
	if n := read("gitlab-parallel.yml", "share")["parallel"]; n != 4 {
		t.Errorf("parallel is %v", n)
	}
	job := read("kubernetes-job.yaml", "lvslab-shares")
	spec := job["spec"].(map[string]any)
	if job["apiVersion"] != "batch/v1" || job["kind"] != "Job" || spec["completionMode"] != "Indexed" || spec["completions"] != 4 {
		t.Errorf("%v", job)
	}
	if all, err := yaml.Marshal(spec); err != nil || !strings.Contains(string(all), "name: SHARES\n                  value: \"4\"") {
		t.Errorf("%s, %v", all, err)
	}
}
