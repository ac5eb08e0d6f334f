// Package experiment turns an experiment of the topology into runs and carries
// them out: factors become treatments, treatments become randomised blocks,
// and each run follows the seven steps of docs/run-contract.md, so that it
// starts with a clean connection table and a clean scheduler, or with machines
// that were made for it.
//
// The first half ([Treatments], [Trials], [StudyHash]) is pure. The second half
// ([Prove], [Run]) talks to the agents of a lab that is up, through
// [client.Caller], and hands what it measured to a [Recorder].
package experiment
