// Package operation composes the rooms into whole stories: validate, plan,
// apply, run, destroy. It is the only package that knows all the others, and
// it knows them by their front doors: it holds no HCL, no libvirt and no IPVS.
package operation
