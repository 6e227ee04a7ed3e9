package cmd

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// engineFlags choose what rewrites the objects.
type engineFlags struct {
	engine     engineValue
	waitForSVM bool
	keepSVM    bool
}

func (e *engineFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.Var(&e.engine, "engine", `What rewrites the objects: client (no-op patches from here), in-tree (a StorageVersionMigration in the cluster, verified from here) or auto (client; says where another would be faster)`)
	flags.BoolVar(&e.waitForSVM, "wait-for-svm", false, "Wait for the StorageVersionMigrations of the resource that are not finished, rather than refusing (--engine in-tree always does)")
	flags.BoolVar(&e.keepSVM, "keep-svm", false, "Keep the StorageVersionMigration that --engine in-tree makes; without, it is deleted once every object is verified")
	completeFlag(command, "engine", string(v1alpha1.EngineAuto), string(v1alpha1.EngineClient), string(v1alpha1.EngineInTree))
}

// into adds the choice to an intent. auto is what an intent without a choice means.
func (e *engineFlags) into(intent v1alpha1.Intent) v1alpha1.Intent {
	if engine := v1alpha1.Engine(e.engine); engine != v1alpha1.EngineAuto {
		intent.Engine = engine
	}
	intent.WaitForSVM, intent.KeepSVM = e.waitForSVM, e.keepSVM
	return intent
}

// engineValue is the value of --engine.
type engineValue v1alpha1.Engine

// String returns the default where none was given.
func (e *engineValue) String() string {
	if *e == "" {
		return string(v1alpha1.EngineAuto)
	}
	return string(*e)
}

// Set takes one of the engines.
func (e *engineValue) Set(text string) error {
	switch engine := v1alpha1.Engine(text); engine {
	case v1alpha1.EngineAuto, v1alpha1.EngineClient, v1alpha1.EngineInTree:
		*e = engineValue(engine)
		return nil
	}
	return errors.New("use auto, client or in-tree")
}

// Type is what help calls the value.
func (e *engineValue) Type() string { return "string" }
