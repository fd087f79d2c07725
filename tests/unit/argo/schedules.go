//go:build ignore

// Rewrites schedules.json: to each schedule and time the five runs that follow, or null if it is refused.
//
//	cd lab/tools/argo-v4.0.5 && go run ../../../tests/unit/argo/schedules.go
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
)

const (
	path = "../../../tests/unit/argo/schedules.json"
	runs = 5
)

func main() {
	time.Local = time.UTC
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
		written, after := row[0].(string), row[1].(string)
		answer := []any{written, after, nil}
		if schedule, err := cron.ParseStandard(written); err == nil {
			at, err := time.Parse(time.RFC3339, after)
			if err != nil {
				panic(err)
			}
			following := []string{}
			for range runs {
				if at = schedule.Next(at); at.IsZero() {
					break
				}
				following = append(following, at.UTC().Format(time.RFC3339))
			}
			answer[2] = following
		}
		line, err := json.Marshal(answer)
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
