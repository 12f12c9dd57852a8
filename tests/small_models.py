"""Small random models in the formats that real ones have, saved where a test wants them."""

LETTERS = "abcdefghij"


def make_tiny(folder, seed, width=32, prompts=None):
    """A random one-layer BERT over ten letters, saved as a sentence-transformers model."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *LETTERS]
    tokenizer = Tokenizer(models.WordLevel({n: i for i, n in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
        sep_token="[SEP]",
    )  # fmt: skip
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(names), hidden_size=width, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=40, initializer_range=0.5,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder / "plain")
    fast.save_pretrained(folder / "plain")
    modules = [Transformer(str(folder / "plain"), max_seq_length=24), Pooling(width)]
    SentenceTransformer(modules=modules, device="cpu", prompts=prompts).save(str(folder / "model"))
    return str(folder / "model")


def make_static(folder, **options):
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate("?" + LETTERS)}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    torch.manual_seed(0)
    made = SentenceTransformer(
        modules=[StaticEmbedding(words, embedding_dim=16)], device="cpu", **options
    )
    made.save(str(folder))
    return str(folder)


def make_cross_encoder(folder, seed, labels=1):
    """A random one-layer BERT over ten letters that scores pairs, saved as a CrossEncoder."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    plain = make_tiny(folder, seed) + "/../plain"
    torch.manual_seed(seed)
    config = BertConfig.from_pretrained(plain, num_labels=labels)
    BertForSequenceClassification(config).save_pretrained(folder / "cross")
    AutoTokenizer.from_pretrained(plain).save_pretrained(folder / "cross")
    return str(folder / "cross")


def make_causal(folder, seed):
    """A random one-layer GPT-2 over ten letters, saved as a transformers model."""
    import torch
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

    plain = make_tiny(folder, seed) + "/../plain"
    torch.manual_seed(seed)
    config = GPT2Config(vocab_size=14, n_embd=16, n_layer=1, n_head=2, n_positions=2048)
    GPT2LMHeadModel(config).save_pretrained(folder / "causal")
    AutoTokenizer.from_pretrained(plain).save_pretrained(folder / "causal")
    return str(folder / "causal")
