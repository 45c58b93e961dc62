// Package drift observes, compares and converges.
//
// A [Target] gives both sides of a comparison as a [State]: the leaves that are
// declared and the leaves that were observed. [Compare] turns them into a
// [Report] of verdicts. A [Planner] answers a report with steps, [Run] takes
// them, and [Ensure] does all of it and looks again. A [Loop] keeps targets.
//
// Two rules hold everywhere: a failed question is never an answer (what nobody
// could read is unknown, not absent), and looking changes nothing.
package drift
