"""Train a small BERT with the Trainer of transformers; nothing is downloaded.

It saves into `--out DIR` after each epoch, and when it is asked to stop. The same command then goes on from there.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

EPOCHS, BATCH, RATE = 3, 8, 1e-3
AGAIN = 75  # exit code of a run that has saved, and is to be started again
asked = []  # signals that this rank got


class Sentences(torch.utils.data.Dataset):
    """Sentences of random words; the first word is the class."""

    def __init__(self, count=128, length=12):
        self.words = torch.randint(2, 64, (count, length), generator=torch.Generator().manual_seed(0))
        self.labels = torch.randint(0, 2, (count,), generator=torch.Generator().manual_seed(1))
        self.words[:, 0] = self.labels

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        return {"input_ids": self.words[index], "labels": self.labels[index]}


def make_model(seed=0):
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForSequenceClassification(config)


def newest(out):
    """Return the newest whole checkpoint. `get_last_checkpoint` also takes one that a killed run left half written."""
    whole = out.glob("checkpoint-*/trainer_state.json")  # the last file that is written
    return max((file.parent for file in whole), key=lambda folder: int(folder.name[len("checkpoint-") :]), default=None)


class StopTogether(TrainerCallback):
    """Save and end where any rank got a signal. All ranks learn it at the same step."""

    def __init__(self, pause):
        self.pause = pause

    def on_step_end(self, args, state, control, **_):
        time.sleep(self.pause)
        signals = torch.tensor(len(asked), device=args.device)
        if dist.is_initialized():
            dist.all_reduce(signals)
        if signals > 0:
            control.should_save = control.should_training_stop = True


def train(out=Path("out"), seed=0, epochs=EPOCHS, pause=0.0, **options):
    """Return the Trainer after training. `options` are more TrainingArguments."""
    arguments = TrainingArguments(
        output_dir=str(out),
        per_device_train_batch_size=BATCH,
        num_train_epochs=epochs,
        learning_rate=RATE,
        lr_scheduler_type="constant",
        # True, the default, scales the loss by the number of ranks also where the model returns a mean.
        average_tokens_across_devices=False,
        use_cpu=not torch.cuda.is_available(),  # else every rank trains alone on a node without a GPU
        logging_steps=1,
        save_strategy="epoch",
        save_total_limit=2,
        report_to=[],
        disable_tqdm=True,
        **options,
    )
    trainer = Trainer(
        model=make_model(seed), args=arguments, train_dataset=Sentences(), callbacks=[StopTogether(pause)]
    )
    trainer.train(resume_from_checkpoint=newest(out))
    return trainer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--out", type=Path, default=os.environ.get("CKPT_DIR", "out"), help="directory of checkpoints")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that each step takes longer")
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda number, _: asked.append(number))
    trainer = train(**vars(parser.parse_args()))
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    if trainer.is_world_process_zero():
        print(f"{trainer.args.world_size} ranks: loss {float(losses[0]):.3f} -> {float(losses[-1]):.3f}")
    return AGAIN if asked else 0


if __name__ == "__main__":
    sys.exit(main())
