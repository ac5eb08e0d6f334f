package server

// areas lists every group of handlers. A new area adds its register function
// here, in alphabetical order.
var areas = []func(*Server){
	registerCounters,
	registerFiles,
	registerInfo,
	registerKernelLog,
	registerLinks,
	registerNamed,
	registerNeighbours,
	registerNetem,
	registerPing,
	registerQuery,
	registerRoutes,
	registerSysctl,
	registerTunnels,
}
