"""The cluster: the nodes beside this process, nsqds included, and their figures."""
