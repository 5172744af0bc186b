"""transformers' Trainer on a BERT of two small layers that is made from its configuration: nothing is downloaded."""

import os
import sys

import lesson
import torch
import transformers
from said import say
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

# Not Adam's own 1e-8: a gradient of zero, which rounding makes other than zero, would still give a whole step.
RATE, EPSILON = 1e-3, 1e-3


class Words(torch.utils.data.Dataset):
    """Sentences of random words; their class is what word 0 says."""

    def __init__(self, count=128, length=12):
        self.words = torch.randint(2, 64, (count, length), generator=torch.Generator().manual_seed(0))
        self.labels = torch.randint(0, 2, (count,), generator=torch.Generator().manual_seed(1))
        self.words[:, 0] = self.labels

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        return {"input_ids": self.words[index], "labels": self.labels[index]}


def make(seed):
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,  # one process alone cannot draw what several ranks draw
        attention_probs_dropout_prob=0.0,
    )
    return BertForSequenceClassification(config)


def main(folder):
    arguments = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=lesson.BATCH,
        num_train_epochs=lesson.EPOCHS,
        learning_rate=RATE,
        adam_epsilon=EPSILON,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        # True, its default, multiplies the loss by the number of ranks, also where the model gave the mean (5.23).
        average_tokens_across_devices=False,
        train_sampling_strategy="sequential",
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    trainer = Trainer(model=make(int(os.environ["RANK"])), args=arguments, train_dataset=Words())
    trainer.train()
    given = torch.tensor([arguments.process_index + 1.0], device=arguments.device)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    same = make(0)
    say(
        "transformers Trainer",
        transformers.__version__,
        rank=arguments.process_index,
        local_rank=arguments.local_process_index,
        world_size=arguments.world_size,
        main=trainer.is_world_process_zero(),
        device=arguments.device,
        total=trainer.accelerator.gather(given).sum().item(),
        losses=[losses[0], losses[-1]],
        parameters=trainer.model.parameters(),
        reference=lesson.alone(
            same.train(),
            torch.optim.AdamW(same.parameters(), lr=RATE, eps=EPSILON, weight_decay=0.0),
            Words(),
            loss=lambda learner, batch: learner(**batch).loss,
        ),
        local_main=trainer.is_local_process_zero(),
    )


if __name__ == "__main__":
    main(sys.argv[1])
