"""`python -I -m metier.serve.client_hooks CLIENT`: a hook without its fast client; `--resident`: the process."""

import sys

if sys.argv[1:2] == ["--resident"]:
    from metier.serve.client_hooks.resident import run_resident

    run_resident(sys.argv[2], *map(int, sys.argv[3:]))
else:
    from metier.serve.client_hooks.direct import run_hook

    client, option, path, *_ = [*sys.argv[1:], "", "", ""]
    raise SystemExit(run_hook(client, socket=path, is_late=option == "--late"))
