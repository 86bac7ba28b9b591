// Command load runs a scenario of e2e/load beside a control plane of its own, prints the table, and
// writes CSV files and an HTML page.
//
//	go run ./load/cmd [--floor] [--out DIR] [--profile FILE] SCENARIO
//
// SCENARIO is the name of a file in e2e/load/scenarios or a path. The results are in
// build/load/SCENARIO, those of the last run and of the last run with --floor beside each other.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"syscall"

	"sluice.dev/e2e/harness"
	"sluice.dev/e2e/load"
)

func main() {
	floor := flag.Bool("floor", false, "measure the limit: admit with the least possible writes, the controller stands by")
	out := flag.String("out", "", "directory of the results; build/load/SCENARIO if not given")
	profile := flag.String("profile", "", "write a processor profile of the load generator into this file")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: load [--floor] [--out DIR] [--profile FILE] SCENARIO")
		os.Exit(2)
	}
	if *profile != "" {
		stop, err := startProfile(*profile)
		if err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		defer stop()
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, flag.Arg(0), *floor, *out)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func startProfile(path string) (stop func(), err error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		file.Close()
	}, nil
}

func run(ctx context.Context, name string, floor bool, out string) error {
	path := load.Find(harness.Root(), name)
	scenario, err := load.Read(path)
	if err != nil {
		return err
	}
	if out == "" {
		out = filepath.Join(harness.Root(), "build", "load", scenario.Name)
	}
	sum, err := fileSum(path)
	if err != nil {
		return err
	}
	result, err := measure(ctx, scenario, floor)
	if result == nil {
		return err
	}
	result.ScenarioSum = sum
	if err != nil {
		result.Problems = append(result.Problems, err.Error())
	}
	kind, other := "controller", "limit"
	if floor {
		kind, other = other, kind
	}
	if err := result.Save(filepath.Join(out, kind)); err != nil {
		return err
	}
	beside, err := load.Load(filepath.Join(out, other), sum)
	if err != nil {
		return err
	}
	report := &load.Report{Scenario: scenario, Run: result, Limit: beside}
	if floor {
		report.Run, report.Limit = beside, result
	}
	return write(report, result, out)
}

// measure brings the cluster up, runs the scenario and takes the cluster down.
func measure(ctx context.Context, scenario *load.Scenario, floor bool) (*load.Result, error) {
	cluster, err := harness.Start(scenario.HarnessOptions("load-"+scenario.Name, floor))
	if cluster != nil {
		defer cluster.Close()
	}
	if err != nil {
		return nil, err
	}
	return load.Run(ctx, cluster, scenario, load.Options{Floor: floor, Progress: os.Stderr})
}

func write(report *load.Report, result *load.Result, out string) error {
	page, err := os.Create(filepath.Join(out, "report.html"))
	if err != nil {
		return err
	}
	defer page.Close()
	if err := report.WritePage(page); err != nil {
		return err
	}
	text, err := os.Create(filepath.Join(out, "report.txt"))
	if err != nil {
		return err
	}
	defer text.Close()
	report.Print(text, result)
	report.Print(os.Stdout, result)
	fmt.Printf("\nCSV files and report.html are in %s\n", out)
	if len(result.Problems) > 0 {
		return errors.New("the run has problems, see above")
	}
	return nil
}

// fileSum tells apart the states of a scenario's file.
func fileSum(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}
