"""Faults under Accelerate, DeepSpeed, Lightning and transformers."""

from __future__ import annotations

import shlex
import textwrap

from recording.scene import Scene, add, case
from recording.training import FAULTS

ACCELERATE = """\
import os, sys, time

import torch
from accelerate import Accelerator
{top}

def main():
    accelerator = Accelerator(cpu=True)
    rank = accelerator.process_index
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for step, batch in enumerate(loader):
{fault}
        loss = model(batch).pow(2).mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        accelerator.print(f"step {{step}} loss {{loss.item():.4f}}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
"""
DEEPSPEED = """\
import argparse, os, sys, time

import deepspeed
import torch
{top}

def main():
    parser = deepspeed.add_config_arguments(argparse.ArgumentParser())
    parser.add_argument("--local_rank", type=int, default=-1)
    parser.parse_args()
    deepspeed.init_distributed(dist_backend="gloo")
    rank = deepspeed.comm.get_rank()
    config = {config}
    model = torch.nn.Linear(8, 4)
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    for step in range(6):
{fault}
        loss = engine(torch.randn(4, 8)).pow(2).mean()
        engine.backward(loss)
        engine.step()
        if rank == 0:
            print(f"step {{step}} loss {{loss.item():.4f}}", flush=True)


if __name__ == "__main__":
    main()
"""
CONFIG = '{"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.01}}, "zero_optimization": {"stage": 1}, "zero_allow_untested_optimizer": True}'
LIGHTNING = """\
import os, sys, time

import lightning
import torch
{top}

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 4)

    def training_step(self, batch, step):
        rank = self.global_rank
{fault}
        return self.layer(batch).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main():
    loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=4)
    trainer = lightning.Trainer({options})
    trainer.fit(Module(), loader)


if __name__ == "__main__":
    main()
"""
TRAINER = 'accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=False, enable_checkpointing=False'


def script(form: str, fault: str, **parts: str) -> str:
    """Return a framework's training script with the fault of the table in `training.py`."""
    known = FAULTS.get(fault)
    body = textwrap.dedent(known.body).strip() if known else "pass"
    where = "if step == 3:" if known is None or known.every else "if step == 3 and rank == 1:"
    lines = textwrap.indent(f"{where}\n{textwrap.indent(body, '    ')}", "        ")
    filled = {"top": known.top if known else "", "fault": lines, "config": CONFIG, "options": TRAINER}
    return form.format(**{**filled, **parts})


def accelerate(scene: Scene, options: str = "--num_processes 2") -> str:
    path = f"PATH={scene.interop}:$PATH ACCELERATE_USE_CPU=true"
    return scene.run(f"{path} accelerate launch --cpu --main_process_port 29550 {options} train.py", "node1", 180)


def torchrun(scene: Scene) -> str:
    path = f"PATH={scene.interop}:$PATH ACCELERATE_USE_CPU=true"
    return scene.run(f"{path} torchrun --master_port 29550 --nproc_per_node 2 train.py", "node1", 180)


def deepspeed(scene: Scene, options: str = "--num_gpus 2") -> str:
    return scene.run(f"PATH={scene.interop}:$PATH DS_ACCELERATOR=cpu deepspeed {options} train.py", "node1", 240)


def python(scene: Scene) -> str:
    return scene.run(f"PATH={scene.interop}:$PATH python train.py", "node1", 180)


def framework(name: str, fault: str) -> None:
    """Add a fault of the table under a framework."""
    known = FAULTS[fault]
    form, run = {
        "accelerate": (ACCELERATE, torchrun),
        "deepspeed": (DEEPSPEED, deepspeed),
        "lightning": (LIGHTNING, python),
        "lightning-torchrun": (LIGHTNING, torchrun),
    }[name]

    def record(scene: Scene) -> str:
        scene.write("train.py", script(form, fault))
        return run(scene)

    add(f"{name}/{fault}", record, f"{known.provoked}, in a script of {name}", known.cause, **known.label())


for _name, _faults in {
    "accelerate": "value-error sigkill worker-exception module-missing exit-3 data-missing checkpoint-pickled shapes",
    "deepspeed": "value-error sigkill module-missing key-error segfault exit-3",
    "lightning": "value-error sigkill worker-exception",
    "lightning-torchrun": "value-error segfault data-missing",
}.items():
    for _fault in _faults.split():
        framework(_name, _fault)


@case(
    "accelerate/no-config-cuda",
    "accelerate launch --multi_gpu on a machine without GPU",
    "no-cuda-gpus or more-gpus-asked or no-nccl-in-torch",
    action="stop",
)
def _(scene: Scene) -> str:
    scene.write("train.py", script(ACCELERATE, "").replace("cpu=True", ""))
    path = f"PATH={scene.interop}:$PATH"
    return scene.run(
        f"{path} accelerate launch --multi_gpu --num_processes 2 --main_process_port 29551 train.py", "node1", 180
    )


@case("accelerate/option", "an option of accelerate launch is misspelled", "bad-arguments", action="stop")
def _(scene: Scene) -> str:
    return accelerate(scene, "--num_process_es 2")


@case("accelerate/script-missing", "the script of accelerate launch does not exist", "script-missing", action="stop")
def _(scene: Scene) -> str:
    return accelerate(scene)


@case("accelerate/port", "another program listens on the port of accelerate launch", "port-in-use", action="retry")
def _(scene: Scene) -> str:
    scene.write("train.py", script(ACCELERATE, ""))
    held = "import socket, time; s = socket.socket(); s.bind(('', 29550)); s.listen(); print('held', flush=True); time.sleep(90)"
    holder = scene.start(f"exec python -c {shlex.quote(held)}")
    holder.wait_for("held")
    scene.undo.append(lambda: scene.kill("node1", "s.bind"))
    return torchrun(scene)


@case(
    "deepspeed/hostfile-unreachable",
    "a host of the hostfile does not resolve",
    "deepspeed-ssh or ssh-unreachable",
    action="stop",
)
def _(scene: Scene) -> str:
    scene.write("train.py", script(DEEPSPEED, ""))
    scene.write("hosts", "node1 slots=1\ngpu-node-07 slots=1\n")
    return deepspeed(scene, "--hostfile hosts")


@case(
    "deepspeed/slots",
    "the command selects more slots than the host has",
    "any",
    says="slot|No slot|exceeded|not found",
    action="stop",
)
def _(scene: Scene) -> str:
    scene.write("train.py", script(DEEPSPEED, ""))
    scene.write("hosts", "node1 slots=2\n")
    return deepspeed(scene, "--hostfile hosts --include node1:5")


@case("deepspeed/hostfile-form", "a line of the hostfile has no slots", "any", says="[Hh]ostfile", action="stop")
def _(scene: Scene) -> str:
    scene.write("train.py", script(DEEPSPEED, ""))
    scene.write("hosts", "node1 gpus=2\n")
    return deepspeed(scene, "--hostfile hosts")


@case(
    "deepspeed/untested", "the optimizer is not tested with ZeRO", "own-exception", says="untested ZeRO", action="stop"
)
def _(scene: Scene) -> str:
    scene.write("train.py", script(DEEPSPEED, "", config=CONFIG.replace("True", "False")))
    return deepspeed(scene)


@case("deepspeed/config-key", "fp16 is enabled on a CPU", "own-exception or dtypes-differ", action="stop")
def _(scene: Scene) -> str:
    scene.write("train.py", script(DEEPSPEED, "", config=CONFIG[:-1] + ', "fp16": {"enabled": True}}'))
    return deepspeed(scene)


@case(
    "deepspeed/checkpoint-missing",
    "the checkpoint directory to load is empty",
    "file-missing or own-exception",
    action="stop",
)
def _(scene: Scene) -> str:
    text = script(DEEPSPEED, "").replace(
        "    for step in range(6):",
        '    open("latest", "w").write("step5")\n    engine.load_checkpoint(".")\n    raise SystemExit if engine.global_steps else RuntimeError("nothing was loaded")\n    for step in range(6):',
    )
    scene.write("train.py", text)
    return deepspeed(scene)


@case(
    "lightning/devices",
    "Trainer(accelerator='gpu') on a machine without GPU",
    "no-cuda-gpus or more-gpus-asked",
    action="stop",
)
def _(scene: Scene) -> str:
    scene.write("train.py", script(LIGHTNING, "", options='accelerator="gpu", devices=2'))
    return python(scene)


@case("lightning/slurm-tasks", "devices=4 in a job of 2 tasks for each node", "srun-not-used", action="stop")
def _(scene: Scene) -> str:
    scene.write("train.py", script(LIGHTNING, "", options=TRAINER.replace("devices=2", "devices=4")))
    return scene.run(f"PATH={scene.interop}:$PATH srun -N1 -n2 --ntasks-per-node=2 python train.py", "login", 180)


@case(
    "lightning/no-loader", "the module has no train_dataloader", "own-exception", says="train_dataloader", action="stop"
)
def _(scene: Scene) -> str:
    scene.write("train.py", script(LIGHTNING, "", options='accelerator="cpu"').replace("Module(), loader", "Module()"))
    return python(scene)


def transformers(scene: Scene, code: str, env: str = "") -> str:
    scene.write("train.py", code)
    return scene.run(f"HF_HOME=$PWD/cache {env} PATH={scene.interop}:$PATH python train.py", "node1", 120)


LOAD = 'from transformers import AutoTokenizer\ntokenizer = AutoTokenizer.from_pretrained("org/model")\n'


@case("hub/no-network", "the node has no access to the Internet", "hub-unreachable")
def _(scene: Scene) -> str:
    return transformers(scene, LOAD)


@case("hub/offline", "HF_HUB_OFFLINE=1, and the model is not in the cache", "hub-offline", action="stop")
def _(scene: Scene) -> str:
    return transformers(scene, LOAD, "HF_HUB_OFFLINE=1")


ANSWER = """
import http.server, sys

class Answer(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.send_response({code})
        self.send_header("Content-Length", "0")
        {header}
        self.end_headers()

    do_GET = do_HEAD

server = http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Answer)
{tls}
print("ready", flush=True)
server.serve_forever()
"""


def answering(scene: Scene, code: int, header: str = "", tls: str = "", scheme: str = "http") -> str:
    """Load a model from a hub on this host, which answers with one status."""
    scene.write("server.py", ANSWER.format(code=code, header=header or "pass", tls=tls))
    scene.start("exec python server.py").wait_for("ready")
    scene.undo.append(lambda: scene.kill("node1", "server.py"))
    return transformers(scene, LOAD, f"HF_ENDPOINT={scheme}://localhost:8080")


@case("hub/gated", "the hub answers 401 for a gated model", "hub-no-access", action="stop")
def _(scene: Scene) -> str:
    return answering(scene, 401, 'self.send_header("X-Error-Code", "GatedRepo")')


@case("hub/not-found", "the hub does not have the model", "hub-no-access", action="stop")
def _(scene: Scene) -> str:
    return answering(scene, 404, 'self.send_header("X-Error-Code", "RepoNotFound")')


@case("hub/rate-limit", "the hub answers 429: too many requests", "hub-rate-limit", action="retry")
def _(scene: Scene) -> str:
    return answering(scene, 429)


@case("hub/certificate", "the certificate of the server is self-signed", "ssl-certificate", action="stop")
def _(scene: Scene) -> str:
    scene.run("openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost")
    tls = (
        "import ssl; context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); context.load_cert_chain('cert.pem', 'key.pem'); "
        "server.socket = context.wrap_socket(server.socket, server_side=True)"
    )
    scene.write("server.py", ANSWER.format(code=200, header="pass", tls=tls))
    scene.start("exec python server.py").wait_for("ready")
    scene.undo.append(lambda: scene.kill("node1", "server.py"))
    scene.write(
        "fetch.py", 'import urllib.request\nurllib.request.urlretrieve("https://localhost:8080/cifar10.tar.gz", "a")\n'
    )
    return scene.run("python fetch.py")


@case(
    "hub/refused",
    "no server listens at the proxy's address",
    "hub-unreachable or download-unreachable or ssl-certificate or own-exception",
    says="refused|connect|Connection",
)
def _(scene: Scene) -> str:
    scene.write(
        "fetch.py", 'import urllib.request\nurllib.request.urlretrieve("http://localhost:3128/cifar10.tar.gz", "a")\n'
    )
    return scene.run("python fetch.py")
