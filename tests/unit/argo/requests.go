//go:build ignore

// Rewrites requests.json: to each pod what kube-scheduler counts for it, in millicores, bytes and counts.
//
//	cd lab/tools/kubernetes-v1.36.3 && go run ../../../tests/unit/argo/requests.go
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

const path = "../../../tests/unit/argo/requests.json"

func main() {
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	var rows []struct {
		Pod json.RawMessage `json:"pod"`
	}
	if err := json.Unmarshal(text, &rows); err != nil {
		panic(err)
	}
	lines := make([]string, len(rows))
	for index, row := range rows {
		var pod corev1.Pod
		if err := json.Unmarshal(row.Pod, &pod); err != nil {
			panic(err)
		}
		asked := map[string]int64{}
		for name, quantity := range resource.PodRequests(&pod, resource.PodResourcesOptions{UseStatusResources: true}) {
			if quantity.IsZero() {
				continue
			}
			if name == corev1.ResourceCPU {
				asked[string(name)] = quantity.MilliValue()
			} else {
				asked[string(name)] = quantity.Value()
			}
		}
		line, err := json.Marshal(map[string]any{"pod": row.Pod, "requests": asked})
		if err != nil {
			panic(err)
		}
		lines[index] = "  " + string(line)
	}
	text = []byte("[\n" + strings.Join(lines, ",\n") + "\n]\n")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		panic(err)
	}
	fmt.Println(len(rows), "rows")
}
