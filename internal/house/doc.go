// Package house holds no code: its tests are the rules of this repository,
// checked on every run. Who may import whom is docs/architecture.md as a table.
package house
