// The table of chat formats. Sources: the Jinja chat templates published with the models named;
// tests/tokenizer/test_template.c compares each row with the output of those programs.
//
// Braces are placeholders (formats.h). A conversation in a row of this table:
//
//     begin | before[system] text after[system] | before[user] text after[user] |
//           before[assistant] text after[assistant] | ... | prompt
//
// Fields that a row leaves out are empty: no beginning, no default system message, no rules.
#include "tokenizer/template/formats.h"

// ChatML, which SmolLM and Qwen use with small differences.
#define IM_TURN(role) "{<|im_start|>}" role "\n"
#define IM_END "{<|im_end|>}\n"
#define IM_BEFORE                                                                                  \
    { IM_TURN("system"), IM_TURN("user"), IM_TURN("assistant") }
#define IM_AFTER                                                                                   \
    { IM_END, IM_END, IM_END }
#define NO_THOUGHT "{?<think>}\n\n{?</think>}\n"

// Llama 3. From 3.1 on a system turn with two dates comes first, even if there is no message.
#define HEADER(role) "{<|start_header_id|>}" role "{<|end_header_id|>}\n\n"
#define LLAMA3_AFTER                                                                               \
    { "{<|eot_id|>}", "{<|eot_id|>}", "{<|eot_id|>}" }
#define LLAMA31_SYSTEM(date)                                                                       \
    HEADER("system") "Cutting Knowledge Date: December 2023\nToday Date: " date "\n\n"

// SmolLM3's system turn; the text of the message, or a default one, follows.
#define SMOLLM3_SYSTEM(mode)                                                                       \
    IM_TURN("system")                                                                              \
    "## Metadata\n\nKnowledge Cutoff Date: June 2025\nToday Date: {=date}\nReasoning Mode: " mode  \
    "\n\n## Custom Instructions\n\n"

// The default text of the thinking mode, as the published template has it.
static const char SMOLLM3_THINKER[] =
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face. Your role as an "
    "assistant involves thoroughly exploring questions through a systematic thinking process "
    "before providing the final precise and accurate solutions. This requires engaging in a "
    "comprehensive cycle of analysis, summarizing, exploration, reassessment, reflection, "
    "backtracking, and iteration to develop well-considered thinking process. Please structure "
    "your response into two main sections: Thought and Solution using the specified format: "
    "<think> Thought section </think> Solution section. In the Thought section, detail your "
    "reasoning process in steps. Each step should include detailed considerations such as "
    "analysing questions, summarizing relevant findings, brainstorming new ideas, verifying the "
    "accuracy of the current steps, refining any errors, and revisiting previous steps. In the "
    "Solution section, based on various attempts, explorations, and reflections from the Thought "
    "section, systematically present the final solution that you deem correct. The Solution "
    "section should be logical, accurate, and concise and detail necessary steps needed to reach "
    "the conclusion.";

const ChatTemplate CHAT_TEMPLATES[] = {
    {
        .name = "chatml",
        .begin = "{=bos}",
        .before = IM_BEFORE,
        .after = IM_AFTER,
        .prompt = IM_TURN("assistant"),
    },
    {
        .name = "smollm2",
        .before = IM_BEFORE,
        .after = IM_AFTER,
        .prompt = IM_TURN("assistant"),
        .default_system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
    },
    {
        .name = "qwen2.5",
        .before = IM_BEFORE,
        .after = IM_AFTER,
        .prompt = IM_TURN("assistant"),
        .default_system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
    },
    {
        .name = "qwen3",
        .before = IM_BEFORE,
        .after = IM_AFTER,
        .prompt = IM_TURN("assistant"),
        .rules = RULE_DROP_THOUGHTS,
    },
    {
        .name = "qwen3-nothink",
        .before = IM_BEFORE,
        .after = IM_AFTER,
        .prompt = IM_TURN("assistant") NO_THOUGHT "\n",
        .rules = RULE_DROP_THOUGHTS,
    },
    {
        // No <|im_end|> after the system message, as in the published template.
        .name = "smollm3",
        .before = {SMOLLM3_SYSTEM("/think"), IM_TURN("user"), IM_TURN("assistant")},
        .after = {"\n\n", IM_END, IM_END},
        .prompt = IM_TURN("assistant"),
        .default_system = SMOLLM3_THINKER,
        .rules = RULE_THINK_FLAGS | RULE_DROP_NEWLINES,
    },
    {
        .name = "smollm3-nothink",
        .before = {SMOLLM3_SYSTEM("/no_think"), IM_TURN("user"), IM_TURN("assistant") NO_THOUGHT},
        .after = {"\n\n", IM_END, IM_END},
        .prompt = IM_TURN("assistant") NO_THOUGHT,
        .default_system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face.",
        .rules = RULE_THINK_FLAGS | RULE_DROP_NEWLINES,
    },
    {
        // <<SYS>> stands inside the first user message, as plain text.
        .name = "llama2",
        .before = {"<<SYS>>\n", "{<s>}[INST] ", " "},
        .after = {"\n<</SYS>>\n\n", " [/INST]", " {</s>}"},
        .system = SYSTEM_IN_FIRST_USER,
        .rules = RULE_ALTERNATE | RULE_TRIM,
    },
    {
        .name = "llama3",
        .begin = "{<|begin_of_text|>}",
        .before = {HEADER("system"), HEADER("user"), HEADER("assistant")},
        .after = LLAMA3_AFTER,
        .prompt = HEADER("assistant"),
        .rules = RULE_TRIM | RULE_TRIM_SYSTEM,
    },
    {
        .name = "llama3.1",
        .begin = "{<|begin_of_text|>}",
        // 3.1's template has this fixed date, 3.2's takes today's.
        .before = {LLAMA31_SYSTEM("26 Jul 2024"), HEADER("user"), HEADER("assistant")},
        .after = LLAMA3_AFTER,
        .prompt = HEADER("assistant"),
        .default_system = "",
        .rules = RULE_TRIM | RULE_TRIM_SYSTEM,
    },
    {
        .name = "llama3.2",
        .begin = "{<|begin_of_text|>}",
        .before = {LLAMA31_SYSTEM("{=short date}"), HEADER("user"), HEADER("assistant")},
        .after = LLAMA3_AFTER,
        .prompt = HEADER("assistant"),
        .default_system = "",
        .rules = RULE_TRIM | RULE_TRIM_SYSTEM,
    },
    {
        // The versions differ in spaces and in where the system message goes (detect.c,
        // mistral_version).
        .name = "mistral-v1",
        .begin = "{<s>}",
        .before = {"", " [INST] ", " "},
        .after = {"\n\n", " [/INST]", "{</s>}"},
        .system = SYSTEM_IN_FIRST_USER,
        .rules = RULE_ALTERNATE,
    },
    {
        .name = "mistral-v3",
        .begin = "{<s>}",
        .before = {"", "{[INST]} ", " "},
        .after = {"\n\n", "{[/INST]}", "{</s>}"},
        .system = SYSTEM_IN_LAST_USER,
        .rules = RULE_ALTERNATE | RULE_TRIM_ANSWER,
    },
    {
        .name = "mistral-tekken",
        .begin = "{<s>}",
        .before = {"", "{[INST]}", ""},
        .after = {"\n\n", "{[/INST]}", "{</s>}"},
        .system = SYSTEM_IN_LAST_USER,
        .rules = RULE_ALTERNATE,
    },
    {
        .name = "mistral-v7",
        .begin = "{<s>}",
        .before = {"{[SYSTEM_PROMPT]} ", "{[INST]} ", " "},
        .after = {"{[/SYSTEM_PROMPT]}", "{[/INST]}", "{</s>}"},
    },
    {
        // As in Mistral Small 3, without the long default system message of 3.1 and later.
        .name = "mistral-v7-tekken",
        .begin = "{<s>}",
        .before = {"{[SYSTEM_PROMPT]}", "{[INST]}", ""},
        .after = {"{[/SYSTEM_PROMPT]}", "{[/INST]}", "{</s>}"},
    },
    {
        // The assistant is called model; a system message is put in front of the first user text.
        .name = "gemma",
        .begin = "{<bos>}",
        .before = {"", "{<start_of_turn>}user\n", "{<start_of_turn>}model\n"},
        .after = {"\n\n", "{<end_of_turn>}\n", "{<end_of_turn>}\n"},
        .prompt = "{<start_of_turn>}model\n",
        .system = SYSTEM_IN_FIRST_USER,
        .rules = RULE_ALTERNATE | RULE_TRIM,
    },
    {
        // The newlines after the control tokens are in the published template, but the published
        // SentencePiece tokenizer strips white space after these tokens (rstrip).
        .name = "phi3",
        .begin = "{=bos}",
        .before = {"{<|system|>}\n", "{<|user|>}\n", "{<|assistant|>}\n"},
        .after = {"{<|end|>}\n", "{<|end|>}\n", "{<|end|>}\n"},
        .prompt = "{<|assistant|>}\n",
        .rules = RULE_SKIP_EMPTY_SYSTEM | RULE_TOKEN_EATS_SPACE,
    },
    {
        // The roles are plain text: the vocabulary has no tokens for them.
        .name = "olmo2",
        .begin = "{<|endoftext|>}",
        .before = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"},
        .after = {"\n", "\n", "{<|endoftext|>}\n"},
        .prompt = "<|assistant|>\n",
    },
    {
        .name = "nanochat",
        .begin = "{<|bos|>}",
        .before = {"", "{<|user_start|>}", "{<|assistant_start|>}"},
        .after = {"\n\n", "{<|user_end|>}", "{<|assistant_end|>}"},
        .prompt = "{<|assistant_start|>}",
        .system = SYSTEM_IN_FIRST_USER,
        .rules = RULE_ALTERNATE,
    },
};

const size_t CHAT_TEMPLATE_COUNT = sizeof CHAT_TEMPLATES / sizeof *CHAT_TEMPLATES;
