// The table of chat formats. Sources: the Jinja chat templates published with the models named;
// tests/tokenizer/test_template.c compares each row with the output of those programs.
//
// Braces are placeholders (formats.h). A conversation in a row of this table:
//
//     begin | before[system] text after[system] | before[user] text after[user] |
//           before[assistant] text after[assistant] | ... | prompt
//
// A default system message may have placeholders too. Fields that a row leaves out are empty: no
// beginning, no default system message, no rules.
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

// Ministral 3's, as the published template has it.
static const char MINISTRAL_THINKER[] =
    "# HOW YOU SHOULD THINK AND ANSWER\n\nFirst draft your thinking process (inner monologue) "
    "until "
    "you arrive at a response. Format your response using Markdown, and use LaTeX for any "
    "mathematical equations. Write both your thoughts and the response in the same language as the "
    "input.\n\nYour thinking process must follow the template below:{?[THINK]}Your thoughts or/and "
    "draft, like working through an exercise on scratch paper. Be as casual and as long as you "
    "want "
    "until you are confident to generate the response to the user.{?[/THINK]}Here, provide a "
    "self-contained response.";

// Granite: the name of a role between two tokens.
#define ROLE(name) "{<|start_of_role|>}" name "{<|end_of_role|>}"
#define ROLE_BEFORE                                                                                \
    { ROLE("system"), ROLE("user"), ROLE("assistant") }
#define ROLE_AFTER                                                                                 \
    { "{<|end_of_text|>}\n", "{<|end_of_text|>}\n", "{<|end_of_text|>}\n" }

// EXAONE 4. Every answer in the history has an empty thought.
#define EXAONE_THOUGHT NO_THOUGHT "\n"
#define EXAONE_BEFORE                                                                              \
    { "{[|system|]}\n", "{[|user|]}\n", "{[|assistant|]}\n" EXAONE_THOUGHT }
#define EXAONE_AFTER                                                                               \
    { "{[|endofturn|]}\n", "{[|endofturn|]}\n", "{[|endofturn|]}\n" }

// OLMo 3 says in the system message that there are no functions to call.
#define NO_FUNCTIONS                                                                               \
    "You do not currently have access to any functions. {?<functions>}{?</functions>}"

// Phi 4 (Phi 4 mini has Phi 3's tokens).
#define SEP_TURN(role) "{<|im_start|>}" role "{<|im_sep|>}"

// DeepSeek's tokens have a fullwidth vertical line (U+FF5C), some U+2581 between words.
#define DS(name) "{<\xef\xbd\x9c" name "\xef\xbd\x9c>}"
#define DS_BEGIN DS("begin\xe2\x96\x81of\xe2\x96\x81sentence")
#define DS_END DS("end\xe2\x96\x81of\xe2\x96\x81sentence")

// Hunyuan's tokens have a fullwidth vertical line (U+FF5C), some U+2581 between words.
#define HY(name) "{<\xef\xbd\x9chy_" name "\xef\xbd\x9c>}"
#define HY_HOLDER(number) HY("place\xe2\x96\x81holder\xe2\x96\x81no\xe2\x96\x81" number)

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
        .name = "qwen1.5",
        .begin = "{=bos}",
        .before = IM_BEFORE,
        .after = IM_AFTER,
        .prompt = IM_TURN("assistant"),
        .default_system = "You are a helpful assistant",
    },
    {
        .name = "qwen2",
        .begin = "{=bos}",
        .before = IM_BEFORE,
        .after = IM_AFTER,
        .prompt = IM_TURN("assistant"),
        .default_system = "You are a helpful assistant.",
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
        // Qwen 3 Thinking and QwQ: the thought begins in the prompt.
        .name = "qwen3-think",
        .before = IM_BEFORE,
        .after = IM_AFTER,
        .prompt = IM_TURN("assistant") "{?<think>}\n",
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
    {
        // 3.0, and 4.1 and later files of 4.0: no default message.
        .name = "granite",
        .before = ROLE_BEFORE,
        .after = ROLE_AFTER,
        .prompt = ROLE("assistant"),
        .rules = RULE_SKIP_EMPTY_SYSTEM,
    },
    {
        .name = "granite3", // 3.1 to 3.3
        .before = ROLE_BEFORE,
        .after = ROLE_AFTER,
        .prompt = ROLE("assistant"),
        .default_system = "Knowledge Cutoff Date: April 2024.\nToday's Date: {=month date}.\n"
                          "You are Granite, developed by IBM. You are a helpful AI assistant.",
    },
    {
        .name = "granite4", // the first files of 4.0
        .before = ROLE_BEFORE,
        .after = ROLE_AFTER,
        .prompt = ROLE("assistant"),
        .default_system = "You are a helpful assistant. Please ensure responses are professional, "
                          "accurate, and safe.",
        .rules = RULE_DEFAULT_IF_EMPTY,
    },
    {
        .name = "olmo3", // 3 Instruct
        .before = IM_BEFORE,
        .after = IM_AFTER,
        .prompt = IM_TURN("assistant"),
        .default_system = "You are a helpful function-calling AI assistant. " NO_FUNCTIONS,
    },
    {
        // 3 Think. The same sentence follows every system message; the thought is part of the
        // answer.
        .name = "olmo3-think",
        .before = IM_BEFORE,
        .after = {" " NO_FUNCTIONS IM_END, IM_END, IM_END},
        .prompt = IM_TURN("assistant") "{?<think>}",
        .default_system = "You are OLMo, a helpful function-calling AI assistant built by Ai2. "
                          "Your date cutoff is November 2024, and your model weights are available "
                          "at https://huggingface.co/allenai.",
    },
    {
        .name = "olmo3.1", // 3.1 Instruct
        .before = IM_BEFORE,
        .after = IM_AFTER,
        .prompt = IM_TURN("assistant"),
        .default_system = "You are Olmo, a helpful AI assistant built by Ai2. Your date cutoff is "
                          "December 2024, and your model weights are available at "
                          "https://huggingface.co/allenai. " NO_FUNCTIONS,
    },
    {
        // As published without an argument: it answers at once.
        .name = "exaone4",
        .before = EXAONE_BEFORE,
        .after = EXAONE_AFTER,
        .prompt = "{[|assistant|]}\n" EXAONE_THOUGHT,
        .rules = RULE_DROP_THOUGHTS | RULE_TRIM_THOUGHTFUL,
    },
    {
        .name = "exaone4-think", // enable_thinking=True
        .before = EXAONE_BEFORE,
        .after = EXAONE_AFTER,
        .prompt = "{[|assistant|]}\n{?<think>}\n",
        .rules = RULE_DROP_THOUGHTS | RULE_TRIM_THOUGHTFUL,
    },
    {
        .name = "hunyuan", // dense, 0.5B to 4B
        .begin = HY("begin\xe2\x96\x81of\xe2\x96\x81sentence"),
        .before = {"", HY("User"), HY("Assistant")},
        .after = {HY_HOLDER("3"), "", HY_HOLDER("2")},
        .prompt = HY("Assistant"),
        .rules = RULE_SKIP_EMPTY_SYSTEM,
    },
    {
        .name = "hunyuan-7b", // the format of the large ones
        .before = {"", "{<|startoftext|>}", ""},
        .after = {"{<|extra_4|>}", "{<|extra_0|>}", "{<|eos|>}"},
        .system = SYSTEM_IN_FIRST_USER,
        .rules = RULE_SKIP_EMPTY_SYSTEM,
    },
    {
        // The roles are plain text, and nothing but a newline ends a message of the user.
        .name = "ernie4.5",
        .begin = "{<|begin_of_sentence|>}",
        .before = {"", "User: ", "Assistant: "},
        .after = {"\n", "\n", "{<|end_of_sentence|>}"},
        .prompt = "Assistant: ",
    },
    {
        // Ministral 3 Reasoning. Ministral 3 Instruct is mistral-v7-tekken.
        .name = "ministral3-reasoning",
        .begin = "{<s>}",
        .before = {"{[SYSTEM_PROMPT]}", "{[INST]}", ""},
        .after = {"{[/SYSTEM_PROMPT]}", "{[/INST]}", "{</s>}"},
        .default_system = MINISTRAL_THINKER,
        .rules = RULE_ALTERNATE,
    },
    {
        .name = "phi4-mini", // phi3's tokens without its newlines
        .before = {"{<|system|>}", "{<|user|>}", "{<|assistant|>}"},
        .after = {"{<|end|>}", "{<|end|>}", "{<|end|>}"},
        .prompt = "{<|assistant|>}",
    },
    {
        .name = "phi4",
        .before = {SEP_TURN("system"), SEP_TURN("user"), SEP_TURN("assistant")},
        .after = {"{<|im_end|>}", "{<|im_end|>}", "{<|im_end|>}"},
        .prompt = SEP_TURN("assistant"),
    },
    {
        // The models distilled from DeepSeek R1; in the first files the prompt had no <think>.
        .name = "deepseek",
        .begin = DS_BEGIN,
        .before = {"", DS("User"), DS("Assistant")},
        .after = {"", "", DS_END},
        .prompt = DS("Assistant"),
        .rules = RULE_DROP_THOUGHTS | RULE_KEEP_NEWLINES,
    },
    {
        .name = "deepseek-r1",
        .begin = DS_BEGIN,
        .before = {"", DS("User"), DS("Assistant")},
        .after = {"", "", DS_END},
        .prompt = DS("Assistant") "{?<think>}\n",
        .rules = RULE_DROP_THOUGHTS | RULE_KEEP_NEWLINES,
    },
};

const size_t CHAT_TEMPLATE_COUNT = sizeof CHAT_TEMPLATES / sizeof *CHAT_TEMPLATES;
