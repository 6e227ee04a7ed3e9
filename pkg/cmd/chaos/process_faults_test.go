package chaos_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func signalFirst(signal syscall.Signal) func(*scene) error {
	return func(s *scene) error { return s.first.command.Process.Signal(signal) }
}

// processFaults are those of the plugin's own process, and of its files and clock.
func processFaults(dir string) []fault {
	return []fault{
		{name: "SIGTERM", onlyLong: true, inject: signalFirst(syscall.SIGTERM), codes: []int{130}, again: []again{{}}},
		{name: "SIGKILL", inject: signalFirst(syscall.SIGKILL), codes: []int{-1}, again: []again{{says: []string{"taking over"}}}},
		{
			name: "SIGSTOP", onlyLong: true, inject: signalFirst(syscall.SIGSTOP), codes: []int{0},
			during: func(s *scene) {
				time.Sleep(choose(time.Minute, 5*time.Second))
				s.must(signalFirst(syscall.SIGCONT)(s))
			},
		},
		{
			// It wakes up when another run has taken its place and done its work.
			name: "SIGSTOP and taken over", onlyLong: true, inject: signalFirst(syscall.SIGSTOP), codes: []int{3}, says: []string{"took over"},
			during: func(s *scene) {
				if !*long { // In full length the two minutes are waited for.
					s.must(s.editHold(func(hold *v1alpha1.Hold) { hold.TTLSeconds = 1 }))
				}
				second := s.run("--take-over")
				if code := second.end(); code != 0 {
					s.Errorf("exit code %d: %s", code, second)
				}
				s.must(signalFirst(syscall.SIGCONT)(s))
			},
		},
		{
			// It wakes up while another one is in the midst of it.
			name: "SIGSTOP and woken up in the midst of another run", onlyLong: true, inject: signalFirst(syscall.SIGSTOP), codes: []int{3},
			during: func(s *scene) {
				s.must(s.editHold(func(hold *v1alpha1.Hold) { hold.TTLSeconds = 1 }))
				second := s.run("--take-over", "--qps", choose("500", "100"))
				s.must(eventually("the second run migrates", func() bool {
					return strings.Contains(second.stderr.String(), `"step":"migrate"`) || closed(second.done)
				}))
				s.must(signalFirst(syscall.SIGCONT)(s))
				if code := second.end(); code != 0 {
					s.Errorf("exit code %d: %s", code, second)
				}
			},
		},
		{
			name: "second run", onlyLong: true, codes: []int{0},
			inject: func(s *scene) error {
				second := s.run()
				if code := second.end(); code != 3 {
					return fmt.Errorf("%w: the second run: %s", errUnexpected, second)
				}
				s.wantText(second, []string{"another run is at work"})
				return nil
			},
		},
		{
			name: "no space for the report", onlyLong: true, args: []string{"--report", "/dev/full"}, codes: []int{1}, says: []string{"no space left on device"},
			again: []again{{}},
		},
		{
			// The file may have 1 or 2 KB, as the shell counts: its first line has
			// room, those of all objects that are refused have none. That the file is
			// incomplete weighs more than what it should have said.
			name: "no space in the midst of the report", limit: "ulimit -f 2", codes: []int{1},
			args: []string{"--report", filepath.Join(dir, "report")}, says: []string{"the report of the failures is incomplete", "file too large", refusal},
			inject: func(s *scene) error { return s.policies.refuseOneIn(10) },
			after: func(s *scene) {
				s.must(s.notTrimmed())
				s.must(s.policies.lift())
			},
			again: []again{{}},
		},
		{
			// What a clock says that is years ahead or behind has no one give way.
			name: "clock jumps", inject: signalFirst(syscall.SIGKILL), codes: []int{-1},
			again: []again{
				{before: heldAt(1970), code: 3, says: []string{"another run is at work"}},
				{before: heldAt(2099), code: 3, says: []string{"another run is at work"}},
				{args: []string{"--take-over"}, says: []string{"taking over"}},
			},
		},
	}
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// heldAt has the run that was killed be one on another machine, with another clock.
func heldAt(year int) func(*scene) {
	return func(s *scene) {
		s.must(s.editHold(func(hold *v1alpha1.Hold) {
			at := metav1.NewTime(time.Date(year, 1, 2, 3, 4, 5, 0, time.UTC))
			hold.StartedAt, hold.RenewedAt, hold.TTLSeconds = at, at, 1
			hold.Process = nil
		}))
	}
}
