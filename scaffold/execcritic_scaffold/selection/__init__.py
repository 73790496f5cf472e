"""Several tests against several patches (HARNESS 5): signals, a score with abstention, and the choice of a pair.

`matrix`, `agreement`, `mutants`, `pinning`, `evidence`, `score` and `choose` are pure; `appraise` asks the harness for
what they need, and `several` runs the episodes. The case of one test and one patch does not come here.
"""
