"""transformers' Trainer on a BERT of two small layers that is made from its configuration: nothing is downloaded."""

import sys

import torch
import transformers
from said import say
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Words(torch.utils.data.Dataset):
    """Sentences of random words; their class is whether word 1 is there."""

    def __init__(self, count=128, length=12):
        self.words = torch.randint(2, 64, (count, length), generator=torch.Generator().manual_seed(0))
        self.labels = torch.arange(count) % 2
        self.words[:, 0] = self.labels

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        return {"input_ids": self.words[index], "labels": self.labels[index]}


def main(folder):
    arguments = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=8,
        num_train_epochs=2,
        learning_rate=1e-3,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    config = BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=16,
    )
    trainer = Trainer(model=BertForSequenceClassification(config), args=arguments, train_dataset=Words())
    trainer.train()
    given = torch.tensor([arguments.process_index + 1.0], device=arguments.device)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    say(
        "transformers Trainer",
        transformers.__version__,
        rank=arguments.process_index,
        local_rank=arguments.local_process_index,
        world_size=arguments.world_size,
        total=trainer.accelerator.gather(given).sum().item(),
        losses=[losses[0], losses[-1]],
        parameters=trainer.model.parameters(),
        main=trainer.is_world_process_zero(),
    )


if __name__ == "__main__":
    main(sys.argv[1])
