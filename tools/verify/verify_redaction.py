#!/usr/bin/env python3
"""Writes secrets of many kinds in many forms into a session with the program, exports it with masked secrets, and
reports which ones are still there.

    verify_redaction.py [--annals target/debug/annals] [--seed 7] [--misses]

The two lists were written by somebody who had not seen the rules of annals: kinds that are common, and kinds
that are rare. In a shape, `{a36}` is 36 random letters and digits, `l` and `u` the same in one case, `h`
hexadecimal, `d` digits, `b` base64, `2` base32; between two `|` is what must not be left. The exit code is 1 if less
than 99 % of the common kinds are masked.
"""

import argparse
import json
import os
import random
import re
import string
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

LETTERS = string.ascii_letters + string.digits
ALPHABETS = {
    "a": LETTERS,
    "l": string.ascii_lowercase + string.digits,
    "u": string.ascii_uppercase + string.digits,
    "h": "0123456789abcdef",
    "d": string.digits,
    "b": LETTERS + "+/",
    "2": string.ascii_uppercase + "234567",
}
LINES = "{b64}\n" * 4
COMMON = """
AKIA{2=16}; ASIA{2=16}; ghp_{a36}; gho_{a36}; ghs_{a36}; ghr_{a36}; github_pat_{a22}_{a59}; glpat-{a20}; glrt-{a20}; gldt-{a20};
xoxb-{d12}-{d13}-{a24}; xoxp-{d12}-{d12}-{d12}-{h32}; xapp-1-A{u10}-{d13}-{h64};
https://hooks.slack.com/services/T{u10}/B{u10}/|{a24}|; sk_live_{a24}; rk_live_{a24}; sk_test_{a24}; whsec_{a32};
sk-proj-{a48}T3BlbkFJ{a48}; sk-{a20}T3BlbkFJ{a20}; sk-ant-api03-{a93}AA; sk-ant-admin01-{a93}AA; AIza{a35}; GOCSPX-{a28};
1//0{a60}; ya29.{a100}; hf_{a34}; r8_{a37}; gsk_{a52}; pplx-{a48}; xai-{a80}; sk-or-v1-{h64}; npm_{a36};
pypi-AgEIcHlwaS5vcmc{a70}; rubygems_{h48}; cio{a32}; dckr_pat_{a27}; SG.{a22}.{a43}; key-{h32}; {h32}-us12; SK{h32};
PMAK-{h24}-{h34}; dop_v1_{h64}; doo_v1_{h64}; shpat_{h32}; EAAA{a60}; sq0csp-{a43}; access_token$production${l16}${h32};
{d10}:|AA{a33}|; MTI3MDM4NTk0MTYwMjc1MjUx.{a6}.{a27}; https://discord.com/api/webhooks/{d18}/|{a68}|; lin_api_{a40}; ntn_{a46};
secret_{a43}; pat{a14}.{h64}; figd_{a40}; 1/12{d14}:{h32}; ATATT3xFfGF0{a176}={u8}; sntrys_{a80}; NRAK-{u27}; ddapp_{a34};
glsa_{a32}_{h8}; glc_{a60}; hvs.{a95}; {a14}.atlasv1.{a67}; pul-{h40}; dp.pt.{a43}; dapi{h32}; pscale_tkn_{a43}; sbp_{h40};
fo1_{a43}; vercel_blob_rw_{a16}_{a30}; HRKU-AA{a58}; AGE-SECRET-KEY-1{2=58}; eyJ{a33}.eyJ{a60}.|{a43}|; EZAK{a54};
AccountName=shop;AccountKey=|{b86}|==;EndpointSuffix=core.windows.net; postgres://app:|{a16}|@db.internal:5432/shop;
mongodb+srv://root:|{a18}|@cluster0.ab1cd.mongodb.net/x; redis://:|{a20}|@cache:6379/0;
-----BEGIN RSA PRIVATE KEY-----\n|LINES|-----END RSA PRIVATE KEY-----;
-----BEGIN OPENSSH PRIVATE KEY-----\n|LINES|-----END OPENSSH PRIVATE KEY-----
"""
RARE = """
ctx7sk-{uuid}; tskey-auth-k{a16}CNTRL-{a32}; sk-lf-{uuid}; sb_secret_{a22}_{a8}; rootly_{h64}; ddpat_{a22}_{a40}; fc-{h32};
tvly-dev-{a32}; jina_{a60}; e2b_{h40}; nvapi-{a64}; v1.0-{h24}-{h146}; ops_eyJ{a250}; sntryu_{h64}; phx_{a43}; lsv2_pt_{h32}_{h10};
wandb_v1_{a77}; pcsk_{a5}_{a64}; csk-{l48}; sk_{h48}; rnd_{a28}; rpa_{u43}; re_{a8}_{a24}; xkeysib-{h64}-{a16}; AKID{a32};
sgp_{h16}_{h40}; bkua_{h40}; CCIPAT_{a22}_{h40}; ATBB{a24}{u8}; AAAAAAAAAAAAAAAAAAAAA{a30}%3D{a50}; shpss_{h32};
FLWSECK_TEST-{h32}-X; lin_oauth_{h64}; nfp_{a36}; pnu_{a36}; dp.st.prd.{a43}; access-production-{uuid}; duffel_live_{a43}; sl.u.{a150};
tgp_v1_{a43}; sk-svcacct-{a58}T3BlbkFJ{a58}; xoxe-1-{a146}; oy2{l43}; SWMTKN-1-{l49}-{l25}; glptt-{h40}; glffct-{a20}; gloas-{h64};
glagent-{a50}; tfp_{a59}; CLOJARS_{h60}; pat-eu1-{uuid}; EAACEdEose0cBA{a150}; pk_{d8}_{u32}; FwoGZXIvYXdzE{a300}; hvb.{a140};
ico-{a32}; api-{uuid}; fio-u-{a64}; sk.eyJ1{a80}.{a22}; aio_{a28}; rdme_{l70}; xsmtpsib-{h64}-{a16}; hvs.CAESI{a90}; AKCp{a69};
cmVmdGtuO{a55}; b_{a44}; live_{h35}; 00{a40}; kagi_{a43}
"""
ESC = "\x1b"
FORMS = {
    "sentence": lambda secret: f"I used {secret} for the upload, and it worked.",
    "JSON": lambda secret: json.dumps({"name": "x", "value": secret}),
    "JSON in JSON": lambda secret: json.dumps({"out": json.dumps({"cred": secret})}),
    ".env": lambda secret: f"SERVICE_CREDENTIAL={secret}",
    "assignment and text": lambda secret: f"export TOKEN='{secret}' # remember to rotate",
    "YAML": lambda secret: f'service:\n  token: "{secret}"\n  retries: 3',
    "header": lambda secret: f"curl -H 'Authorization: Bearer {secret}' https://api.example.com/v1",
    "colour codes": lambda secret: f"{ESC}[32m+{ESC}[0m {ESC}[1;33m{secret}{ESC}[0m done",
    "diff": lambda secret: f'@@ -1 +1 @@\n-token = "old"\n+token = "{secret}"',
    "code fence": lambda secret: f'```python\nclient = Client(api_key="{secret}")\n```',
    "numbered lines": lambda secret: f"    12\tconst key = '{secret}';\n    13\trun(key);",
    "HTML": lambda secret: f'<input type="hidden" name="t" value="{secret}">',
}


def filled(shape, dice):
    """Returns the text of a shape, and the part of it that is secret."""

    def hole(found):
        if found.group(0) == "{uuid}":
            word = "".join(dice.choices(ALPHABETS["h"], k=30))
            return f"{word[:8]}-{word[8:12]}-4{word[12:15]}-a{word[15:18]}-{word[18:]}"
        return "".join(dice.choices(ALPHABETS[found.group(1)], k=int(found.group(2))))

    shape = shape.replace("LINES", LINES).replace("\\n", "\n")
    text = re.sub(r"\{(?:uuid|(\w)=?(\d+))\}", hole, shape)
    parts = text.split("|")
    return text.replace("|", ""), parts[1] if len(parts) == 3 else text


def is_left(secret, text):
    """Returns whether the whole secret or its last twelve characters are in a text."""
    line = secret.strip().splitlines()[-1]
    return secret in text or line[-12:] in text


def missed(annals, kinds, dice):
    """Yields the kind and form of each secret that an export shows."""
    samples = [(kind, form, *filled(kind, dice)) for kind in kinds for form in FORMS]
    with tempfile.TemporaryDirectory() as home:
        environment = {"HOME": home, "ANNALS_STATE_DIR": f"{home}/state", "PATH": os.environ["PATH"]}
        root = f"claude-code:{home}/root"
        Path(home, "root", "projects").mkdir(parents=True)

        def run(*words, text=""):
            command = [annals, "--root", root, *words]
            done = subprocess.run(command, input=text, capture_output=True, text=True, env=environment, check=False)
            if done.returncode != 0:
                sys.exit(f"{words}: {done.stderr}")
            return done.stdout

        run("new", "--id", SESSION, "--cwd", home, "-m", "begin")
        drafts = ({"role": "user", "content": FORMS[form](text)} for _, form, text, _ in samples)
        run("append", SESSION, "--live", text="".join(json.dumps(draft) + "\n" for draft in drafts))
        exported = [run("export", SESSION, "-f", kind, "--redact", "-o", "-") for kind in ("markdown", "jsonl")]
    shown = "\n".join(exported).replace("\\", "")
    yield from ((kind, form) for kind, form, _, secret in samples if is_left(secret, shown))


SESSION = "5c7c2f4e-0d0f-4c4b-9a53-6f0a1d7b2e31"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--annals", default="target/debug/annals")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--misses", action="store_true", help="list the kinds that are not always masked")
    arguments = parser.parse_args()
    dice = random.Random(arguments.seed)
    shares = {}
    for name, text in (("common", COMMON), ("rare", RARE)):
        kinds = [kind.strip() for kind in re.split(r";\s+", text.strip())]
        found = list(missed(arguments.annals, kinds, dice))
        samples = len(kinds) * len(FORMS)
        shares[name] = 1 - len(found) / samples
        print(f"{name}: {len(kinds)} kinds, {len(FORMS)} forms: {samples - len(found)} of {samples} masked ({shares[name]:.2%})")
        if arguments.misses:
            for kind, count in Counter(kind for kind, _ in found).most_common():
                print(f"  {count} of {len(FORMS)}: {kind}")
    sys.exit(shares["common"] < 0.99)


if __name__ == "__main__":
    main()
