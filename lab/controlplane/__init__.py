"""etcd, API server, controllers, scheduler and Argo as processes; knows nothing of what pods do."""
