package server

// areas lists every group of handlers. A new area adds its register function
// here, in alphabetical order.
func areas() []func(*Server) {
	return []func(*Server){
		registerARP,
		registerCapture,
		registerCounters,
		registerFiles,
		registerIPVS,
		registerInfo,
		registerKernelLog,
		registerLinks,
		registerLoad,
		registerStart,
		registerMarks,
		registerMasquerade,
		registerNamed,
		registerNeighbours,
		registerNetem,
		registerPing,
		registerPreparations,
		registerQuery,
		registerReplay,
		registerRoutes,
		registerSightings,
		registerSysctl,
		registerTidy,
		registerTunnels,
	}
}
