@echo off
rem Completes the words after "kubectl crdver": kubectl looks for a program of this name on PATH.
kubectl-crdver.exe __complete %*
