//go:build ignore

// Rewrites quantities.json: each row's first column is read by apimachinery, the rest is its answer.
//
//	cd lab/tools/kubernetes-v1.36.3 && go run ../../../tests/unit/domain/quantities.go
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

const path = "../../../tests/unit/domain/quantities.json"

func main() {
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	var rows [][]any
	if err := json.Unmarshal(text, &rows); err != nil {
		panic(err)
	}
	lines := make([]string, len(rows))
	for index, row := range rows {
		answer := []any{row[0], nil}
		if quantity, err := resource.ParseQuantity(row[0].(string)); err == nil {
			// Add drops the text that was read, so that String() prints the canonical one.
			printed := quantity.DeepCopy()
			printed.Add(resource.Quantity{})
			answer = []any{row[0], quantity.MilliValue(), quantity.Value(), printed.String()}
		}
		line, err := json.Marshal(answer)
		if err != nil {
			panic(err)
		}
		lines[index] = "  " + string(line)
	}
	whole := fmt.Sprintf("[\n%s\n]\n", strings.Join(lines, ",\n"))
	if err := os.WriteFile(path, []byte(whole), 0o644); err != nil {
		panic(err)
	}
}
