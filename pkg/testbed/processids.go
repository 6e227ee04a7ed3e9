package testbed

// ServerIDs returns the process IDs of etcd and of all kube-apiservers: what a
// request costs the control plane is the CPU time that they take.
func (f *Full) ServerIDs() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := []int{f.etcd.cmd.Process.Pid}
	for _, server := range append([]*APIServer{f.APIServer}, f.others...) {
		ids = append(ids, server.process.cmd.Process.Pid)
	}
	return ids
}

// ControllerManagerID returns the process ID of kube-controller-manager, or 0
// when it was not started.
func (f *Full) ControllerManagerID() int {
	if f.manager == nil {
		return 0
	}
	return f.manager.cmd.Process.Pid
}
