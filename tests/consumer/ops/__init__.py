"""The worker as a process: started, ended, checked, watched."""
