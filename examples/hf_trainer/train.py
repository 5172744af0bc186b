"""Train a small BERT with the Trainer of transformers; nothing is downloaded. Usage: train.py [OUTPUT_DIRECTORY]"""

import sys

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

EPOCHS, BATCH, RATE = 3, 8, 1e-3


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


def train(directory="out", seed=0, **options):
    """Return the Trainer after training. `options` are more TrainingArguments."""
    arguments = TrainingArguments(
        output_dir=directory,
        per_device_train_batch_size=BATCH,
        num_train_epochs=EPOCHS,
        learning_rate=RATE,
        lr_scheduler_type="constant",
        # True, the default, scales the loss by the number of ranks also where the model returns a mean.
        average_tokens_across_devices=False,
        use_cpu=not torch.cuda.is_available(),  # else every rank trains alone on a node without a GPU
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        **options,
    )
    trainer = Trainer(model=make_model(seed), args=arguments, train_dataset=Sentences())
    trainer.train()
    return trainer


def main(directory="out"):
    trainer = train(directory)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    if trainer.is_world_process_zero():
        print(f"{trainer.args.world_size} ranks: loss {float(losses[0]):.3f} -> {float(losses[-1]):.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
