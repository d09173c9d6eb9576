"""From clients' files to a model: what is asked of a file, and what a training does with it.

A client's side is `station`: it owns a `client_file` and answers messages. The coordinator's side
is `train`: the clients agree on an encoding (`agreement`), the settings and the agreement state a
problem (`problems`), its rounds are run, and a `run_folder` keeps what happened. Between them is a
`federation`, of files that are here (`local_files`) or of sites elsewhere. Nothing here knows a
terminal or a network.
"""
