// Chat formats. Expected texts were printed by the Jinja templates published with the models
// (Llama 3 and Qwen3 from their tokenizer_config.json, SmolLM2 from its GGUF, the others from their
// model pages), rendered with jinja2 3.1.6, trim_blocks and lstrip_blocks on as transformers has
// them, and with 3 February 2025 as today. ChatML and nanochat, whose sources are not Jinja, are by
// hand.
#include "tests/support/talks.h"

static const Talk SYS = {{SAY(CHAT_SYSTEM, " Be brief. "), SAY(CHAT_USER, "Hi")}};
static const Talk LONG = {{SAY(CHAT_SYSTEM, "Be brief."), SAY(CHAT_USER, " Hi "),
                           SAY(CHAT_ASSISTANT, "\n Hello! "), SAY(CHAT_USER, "\tBye \n")}};
static const Talk NOSYS = {
    {SAY(CHAT_USER, " Hi "), SAY(CHAT_ASSISTANT, "\n Hello! "), SAY(CHAT_USER, "\tBye \n")}};
static const Talk THINK = {{SAY(CHAT_USER, "Hi"),
                            SAY(CHAT_ASSISTANT, "<think>\nhm\n</think>\n\nHello!"),
                            SAY(CHAT_USER, "Bye")}};
static const Talk OVERRIDE = {
    {SAY(CHAT_SYSTEM, "/system_override Only this. "), SAY(CHAT_USER, "Hi")}};

typedef struct Row {
    const char *name;
    const Talk *talk;
    const char *wanted;
} Row;

static const Row ROWS[] = {
    {"smollm2", &TALK_ONE,
     "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging F"
     "ace<|im_end|>\n<|im_start|>user\n Hi there\n<|im_end|>\n<|im_start|>assistant\n"},
    {"smollm2", &LONG,
     "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n"
     "<|im_start|>assistant\n\n Hello! <|im_end|>\n<|im_start|>user\n"
     "\tBye \n<|im_end|>\n<|im_start|>assistant\n"},
    {"smollm2", &NOSYS,
     "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging F"
     "ace<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n"
     "\n Hello! <|im_end|>\n<|im_start|>user\n\tBye \n<|im_end|>\n<|im_start|>assistant\n"},
    {"qwen2.5", &TALK_ONE,
     "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assist"
     "ant.<|im_end|>\n<|im_start|>user\n Hi there\n<|im_end|>\n<|im_start|>assistant\n"},
    {"qwen2.5", &LONG,
     "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n"
     "<|im_start|>assistant\n\n Hello! <|im_end|>\n<|im_start|>user\n"
     "\tBye \n<|im_end|>\n<|im_start|>assistant\n"},
    {"qwen2.5", &NOSYS,
     "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assist"
     "ant.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n"
     "\n Hello! <|im_end|>\n<|im_start|>user\n\tBye \n<|im_end|>\n<|im_start|>assistant\n"},
    {"qwen3", &TALK_ONE, "<|im_start|>user\n Hi there\n<|im_end|>\n<|im_start|>assistant\n"},
    {"qwen3", &LONG,
     "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n"
     "<|im_start|>assistant\n\n Hello! <|im_end|>\n<|im_start|>user\n"
     "\tBye \n<|im_end|>\n<|im_start|>assistant\n"},
    {"qwen3", &NOSYS,
     "<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n\n Hello! <|im_end|>\n"
     "<|im_start|>user\n\tBye \n<|im_end|>\n<|im_start|>assistant\n"},
    {"llama2", &TALK_ONE, "<s>[INST] Hi there [/INST]"},
    {"llama2", &LONG,
     "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n Hi [/INST] Hello! </s><s>[INST] Bye [/INST]"},
    {"llama2", &NOSYS, "<s>[INST] Hi [/INST] Hello! </s><s>[INST] Bye [/INST]"},
    {"llama3", &TALK_ONE,
     "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n"
     "Hi there<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n"
     "\n"},
    {"llama3", &LONG,
     "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n"
     "\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n"
     "\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n"
     "\nHello!<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n"
     "Bye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"},
    {"llama3", &NOSYS,
     "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n"
     "Hi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
     "Hello!<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_hea"
     "der_id|>assistant<|end_header_id|>\n\n"},
    {"llama3.1", &TALK_ONE,
     "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n"
     "\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n"
     "\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi there<|eot_id|><|start_he"
     "ader_id|>assistant<|end_header_id|>\n\n"},
    {"llama3.1", &LONG,
     "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n"
     "\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n"
     "\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n"
     "\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n"
     "\nHello!<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n"
     "Bye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"},
    {"llama3.1", &NOSYS,
     "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n"
     "\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n"
     "\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_i"
     "d|>assistant<|end_header_id|>\n\nHello!<|eot_id|><|start_header_id|>user<|end_header"
     "_id|>\n\nBye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n"
     "\n"},
    {"mistral-v1", &TALK_ONE, "<s> [INST]  Hi there\n [/INST]"},
    {"mistral-v1", &LONG,
     "<s> [INST] Be brief.\n\n Hi  [/INST] \n Hello! </s> [INST] \tBye \n [/INST]"},
    {"mistral-v1", &NOSYS, "<s> [INST]  Hi  [/INST] \n Hello! </s> [INST] \tBye \n [/INST]"},
    {"mistral-v3", &TALK_ONE, "<s>[INST]  Hi there\n[/INST]"},
    {"mistral-v3", &LONG, "<s>[INST]  Hi [/INST] Hello!</s>[INST] Be brief.\n\n\tBye \n[/INST]"},
    {"mistral-v3", &NOSYS, "<s>[INST]  Hi [/INST] Hello!</s>[INST] \tBye \n[/INST]"},
    {"mistral-tekken", &TALK_ONE, "<s>[INST] Hi there\n[/INST]"},
    {"mistral-tekken", &LONG,
     "<s>[INST] Hi [/INST]\n Hello! </s>[INST]Be brief.\n\n\tBye \n[/INST]"},
    {"mistral-tekken", &NOSYS, "<s>[INST] Hi [/INST]\n Hello! </s>[INST]\tBye \n[/INST]"},
    {"gemma", &TALK_ONE, "<bos><start_of_turn>user\nHi there<end_of_turn>\n<start_of_turn>model\n"},
    {"gemma", &LONG,
     "<bos><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\n"
     "Hello!<end_of_turn>\n<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n"},
    {"gemma", &NOSYS,
     "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n"
     "Hello!<end_of_turn>\n<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n"},
    {"phi3", &TALK_ONE, "<|user|>\n Hi there\n<|end|>\n<|assistant|>\n"},
    {"phi3", &LONG,
     "<|system|>\nBe brief.<|end|>\n<|user|>\n Hi <|end|>\n<|assistant|>\n"
     "\n Hello! <|end|>\n<|user|>\n\tBye \n<|end|>\n<|assistant|>\n"},
    {"phi3", &NOSYS,
     "<|user|>\n Hi <|end|>\n<|assistant|>\n\n Hello! <|end|>\n<|user|>\n"
     "\tBye \n<|end|>\n<|assistant|>\n"},
    {"qwen3", &THINK,
     "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello!<|im_end|>\n"
     "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n"},
    {"qwen3-nothink", &TALK_ONE,
     "<|im_start|>user\n Hi there\n<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"},
    {"qwen3-nothink", &THINK,
     "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello!<|im_end|>\n"
     "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n<think>\n"
     "\n</think>\n\n"},
    {"llama3.2", &TALK_ONE,
     "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n"
     "\nCutting Knowledge Date: December 2023\nToday Date: 03 Feb 2025\n"
     "\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi there<|eot_id|><|start_he"
     "ader_id|>assistant<|end_header_id|>\n\n"},
    {"llama3.2", &SYS,
     "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n"
     "\nCutting Knowledge Date: December 2023\nToday Date: 03 Feb 2025\n"
     "\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n"
     "\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n"
     "\n"},
    {"smollm3", &TALK_ONE,
     "<|im_start|>system\n## Metadata\n\nKnowledge Cutoff Date: June 2025\n"
     "Today Date: 03 February 2025\nReasoning Mode: /think\n\n## Custom Instructions\n"
     "\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face. Your role as"
     " an assistant involves thoroughly exploring questions through a systematic thinking p"
     "rocess before providing the final precise and accurate solutions. This requires enga"
     "ging in a comprehensive cycle of analysis, summarizing, exploration, reassessment, r"
     "eflection, backtracking, and iteration to develop well-considered thinking process. P"
     "lease structure your response into two main sections: Thought and Solution using the"
     " specified format: <think> Thought section </think> Solution section. In the Thought"
     " section, detail your reasoning process in steps. Each step should include detailed c"
     "onsiderations such as analysing questions, summarizing relevant findings, brainstorm"
     "ing new ideas, verifying the accuracy of the current steps, refining any errors, and"
     " revisiting previous steps. In the Solution section, based on various attempts, expl"
     "orations, and reflections from the Thought section, systematically present the final"
     " solution that you deem correct. The Solution section should be logical, accurate, a"
     "nd concise and detail necessary steps needed to reach the conclusion.\n"
     "\n<|im_start|>user\n Hi there\n<|im_end|>\n<|im_start|>assistant\n"},
    {"smollm3", &LONG,
     "<|im_start|>system\n## Metadata\n\nKnowledge Cutoff Date: June 2025\n"
     "Today Date: 03 February 2025\nReasoning Mode: /think\n\n## Custom Instructions\n"
     "\nBe brief.\n\n<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n"
     " Hello! <|im_end|>\n<|im_start|>user\n\tBye \n<|im_end|>\n<|im_start|>assistant\n"},
    {"smollm3", &TALK_MODES,
     "<|im_start|>system\n## Metadata\n\nKnowledge Cutoff Date: June 2025\n"
     "Today Date: 03 February 2025\nReasoning Mode: /no_think\n\n## Custom Instructions\n"
     "\nBe brief.\n\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
     "<think>\n\n</think>\n"},
    {"smollm3", &OVERRIDE,
     "<|im_start|>system\n Only this.<|im_end|>\n<|im_start|>user\n"
     "Hi<|im_end|>\n<|im_start|>assistant\n"},
    {"smollm3-nothink", &NOSYS,
     "<|im_start|>system\n## Metadata\n\nKnowledge Cutoff Date: June 2025\n"
     "Today Date: 03 February 2025\nReasoning Mode: /no_think\n\n## Custom Instructions\n"
     "\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face.\n"
     "\n<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n<think>\n"
     "\n</think>\n Hello! <|im_end|>\n<|im_start|>user\n\tBye \n<|im_end|>\n"
     "<|im_start|>assistant\n<think>\n\n</think>\n"},
    {"smollm3-nothink", &LONG,
     "<|im_start|>system\n## Metadata\n\nKnowledge Cutoff Date: June 2025\n"
     "Today Date: 03 February 2025\nReasoning Mode: /no_think\n\n## Custom Instructions\n"
     "\nBe brief.\n\n<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n"
     "<think>\n\n</think>\n Hello! <|im_end|>\n<|im_start|>user\n\tBye \n"
     "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n"},
    {"olmo2", &TALK_ONE, "<|endoftext|><|user|>\n Hi there\n\n<|assistant|>\n"},
    {"olmo2", &SYS, "<|endoftext|><|system|>\n Be brief. \n<|user|>\nHi\n<|assistant|>\n"},
    {"olmo2", &LONG,
     "<|endoftext|><|system|>\nBe brief.\n<|user|>\n Hi \n<|assistant|>\n\n Hello! "
     "<|endoftext|>\n<|user|>\n\tBye \n\n<|assistant|>\n"},
    {"mistral-v7", &TALK_ONE, "<s>[INST]  Hi there\n[/INST]"},
    {"mistral-v7", &SYS, "<s>[SYSTEM_PROMPT]  Be brief. [/SYSTEM_PROMPT][INST] Hi[/INST]"},
    {"mistral-v7", &LONG,
     "<s>[SYSTEM_PROMPT] Be brief.[/SYSTEM_PROMPT][INST]  Hi [/INST] \n Hello! </s>[INST] \tBye "
     "\n[/INST]"},
    {"mistral-v7-tekken", &TALK_ONE, "<s>[INST] Hi there\n[/INST]"},
    {"mistral-v7-tekken", &SYS, "<s>[SYSTEM_PROMPT] Be brief. [/SYSTEM_PROMPT][INST]Hi[/INST]"},
    {"mistral-v7-tekken", &LONG,
     "<s>[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][INST] Hi [/INST]\n Hello! </s>[INST]\tBye "
     "\n[/INST]"},
    {"chatml", &LONG,
     "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n"
     "<|im_start|>assistant\n\n Hello! <|im_end|>\n<|im_start|>user\n"
     "\tBye \n<|im_end|>\n<|im_start|>assistant\n"},
    {"chatml", &TALK_ONE, "<|im_start|>user\n Hi there\n<|im_end|>\n<|im_start|>assistant\n"},
    {"nanochat", &LONG,
     "<|bos|><|user_start|>Be brief.\n\n Hi <|user_end|><|assistant_start|>\n"
     " Hello! <|assistant_end|><|user_start|>\tBye \n<|user_end|><|assistant_start|>"},
    {"nanochat", &TALK_ONE, "<|bos|><|user_start|> Hi there\n<|user_end|><|assistant_start|>"},
};
enum { N_ROWS = sizeof ROWS / sizeof *ROWS };

Test(template, renders_what_the_published_programs_print) {
    Tokenizer *t = byte_tokenizer(false, UINT64_MAX, false);
    for (size_t i = 0; i < N_ROWS; i++)
        talk_check(ROWS[i].name, t, ROWS[i].talk, ROWS[i].wanted);
    tokenizer_close(t);
}
