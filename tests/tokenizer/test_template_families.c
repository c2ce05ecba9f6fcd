// Chat formats of Granite, OLMo 3, EXAONE 4, Hunyuan, ERNIE 4.5, Ministral 3, Phi-4, Phi-4-mini,
// Qwen 1.5, Qwen 2, Qwen 3 Thinking and DeepSeek R1's distilled models. Expected texts were printed
// by public copies of the published Jinja templates, without their branches for tools and
// documents, with jinja2 3.1.6 as in test_template.c, on 3 February 2025. Three templates were put
// together: granite is granite4's without its default message, olmo3 is olmo3.1's with the older
// message, and hunyuan follows descriptions of the format (it keeps answers whole).
#include "tests/support/talks.h"

static const Talk SYS = {{SAY(CHAT_SYSTEM, " Be brief. "), SAY(CHAT_USER, "Hi")}};
static const Talk EMPTY = {{SAY(CHAT_SYSTEM, ""), SAY(CHAT_USER, "Hi")}};
static const Talk LONG = {{SAY(CHAT_SYSTEM, "Be brief."), SAY(CHAT_USER, " Hi "),
                           SAY(CHAT_ASSISTANT, "\n Hello! "), SAY(CHAT_USER, "\tBye \n")}};
static const Talk NOSYS = {
    {SAY(CHAT_USER, " Hi "), SAY(CHAT_ASSISTANT, "\n Hello! "), SAY(CHAT_USER, "\tBye \n")}};
static const Talk THINK = {{SAY(CHAT_USER, "Hi"),
                            SAY(CHAT_ASSISTANT, "<think>\nhm\n</think>\n\n Hello! "),
                            SAY(CHAT_USER, "Bye")}};

static const struct {
    const char *name;
    const Talk *talk;
    const char *wanted;
} ROWS[] = {
    {"granite", &TALK_ONE,
     "<|start_of_role|>user<|end_of_role|> Hi "
     "there\n<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>"},
    {"granite", &LONG,
     "<|start_of_role|>system<|end_of_role|>Be "
     "brief.<|end_of_text|>\n<|start_of_role|>user<|end_of_role|> Hi "
     "<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>\n Hello! "
     "<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>\tBye "
     "\n<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>"},
    {"granite", &EMPTY,
     "<|start_of_role|>user<|end_of_role|>Hi<|end_of_text|>\n<|start_of_role|>assistant<|end_of_"
     "role|>"},
    {"granite3", &TALK_ONE,
     "<|start_of_role|>system<|end_of_role|>Knowledge Cutoff Date: April 2024.\nToday's Date: "
     "February 03, 2025.\nYou are Granite, developed by IBM. You are a helpful AI "
     "assistant.<|end_of_text|>\n<|start_of_role|>user<|end_of_role|> Hi "
     "there\n<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>"},
    {"granite3", &SYS,
     "<|start_of_role|>system<|end_of_role|> Be brief. "
     "<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>Hi<|end_of_text|>\n<|start_of_role|>"
     "assistant<|end_of_role|>"},
    {"granite3", &LONG,
     "<|start_of_role|>system<|end_of_role|>Be "
     "brief.<|end_of_text|>\n<|start_of_role|>user<|end_of_role|> Hi "
     "<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>\n Hello! "
     "<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>\tBye "
     "\n<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>"},
    {"granite4", &TALK_ONE,
     "<|start_of_role|>system<|end_of_role|>You are a helpful assistant. Please ensure responses "
     "are professional, accurate, and safe.<|end_of_text|>\n<|start_of_role|>user<|end_of_role|> "
     "Hi there\n<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>"},
    {"granite4", &LONG,
     "<|start_of_role|>system<|end_of_role|>Be "
     "brief.<|end_of_text|>\n<|start_of_role|>user<|end_of_role|> Hi "
     "<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>\n Hello! "
     "<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>\tBye "
     "\n<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>"},
    {"granite4", &EMPTY,
     "<|start_of_role|>system<|end_of_role|>You are a helpful assistant. Please ensure responses "
     "are professional, accurate, and "
     "safe.<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>Hi<|end_of_text|>\n<|start_of_role|"
     ">assistant<|end_of_role|>"},
    {"olmo3", &TALK_ONE,
     "<|im_start|>system\nYou are a helpful function-calling AI assistant. You do not currently "
     "have access to any functions. <functions></functions><|im_end|>\n<|im_start|>user\n Hi "
     "there\n<|im_end|>\n<|im_start|>assistant\n"},
    {"olmo3", &LONG,
     "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi "
     "<|im_end|>\n<|im_start|>assistant\n\n Hello! <|im_end|>\n<|im_start|>user\n\tBye "
     "\n<|im_end|>\n<|im_start|>assistant\n"},
    {"olmo3-think", &TALK_ONE,
     "<|im_start|>system\nYou are OLMo, a helpful function-calling AI assistant built by Ai2. Your "
     "date cutoff is November 2024, and your model weights are available at "
     "https://huggingface.co/allenai. You do not currently have access to any functions. "
     "<functions></functions><|im_end|>\n<|im_start|>user\n Hi "
     "there\n<|im_end|>\n<|im_start|>assistant\n<think>"},
    {"olmo3-think", &LONG,
     "<|im_start|>system\nBe brief. You do not currently have access to any functions. "
     "<functions></functions><|im_end|>\n<|im_start|>user\n Hi "
     "<|im_end|>\n<|im_start|>assistant\n\n Hello! <|im_end|>\n<|im_start|>user\n\tBye "
     "\n<|im_end|>\n<|im_start|>assistant\n<think>"},
    {"olmo3.1", &TALK_ONE,
     "<|im_start|>system\nYou are Olmo, a helpful AI assistant built by Ai2. Your date cutoff is "
     "December 2024, and your model weights are available at https://huggingface.co/allenai. You "
     "do not currently have access to any functions. "
     "<functions></functions><|im_end|>\n<|im_start|>user\n Hi "
     "there\n<|im_end|>\n<|im_start|>assistant\n"},
    {"olmo3.1", &LONG,
     "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi "
     "<|im_end|>\n<|im_start|>assistant\n\n Hello! <|im_end|>\n<|im_start|>user\n\tBye "
     "\n<|im_end|>\n<|im_start|>assistant\n"},
    {"exaone4", &TALK_ONE,
     "[|user|]\n Hi there\n[|endofturn|]\n[|assistant|]\n<think>\n\n</think>\n\n"},
    {"exaone4", &LONG,
     "[|system|]\nBe brief.[|endofturn|]\n[|user|]\n Hi "
     "[|endofturn|]\n[|assistant|]\n<think>\n\n</think>\n\n\n Hello! "
     "[|endofturn|]\n[|user|]\n\tBye \n[|endofturn|]\n[|assistant|]\n<think>\n\n</think>\n\n"},
    {"exaone4", &THINK,
     "[|user|]\nHi[|endofturn|]\n[|assistant|]\n<think>\n\n</"
     "think>\n\nHello![|endofturn|]\n[|user|]\nBye[|endofturn|]\n[|assistant|]\n<think>\n\n</"
     "think>\n\n"},
    {"exaone4-think", &TALK_ONE, "[|user|]\n Hi there\n[|endofturn|]\n[|assistant|]\n<think>\n"},
    {"exaone4-think", &LONG,
     "[|system|]\nBe brief.[|endofturn|]\n[|user|]\n Hi "
     "[|endofturn|]\n[|assistant|]\n<think>\n\n</think>\n\n\n Hello! "
     "[|endofturn|]\n[|user|]\n\tBye \n[|endofturn|]\n[|assistant|]\n<think>\n"},
    {"hunyuan", &TALK_ONE,
     "<\xef\xbd\x9chy_begin\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c><\xef\xbd\x9chy_"
     "User\xef\xbd\x9c> Hi there\n<\xef\xbd\x9chy_Assistant\xef\xbd\x9c>"},
    {"hunyuan", &LONG,
     "<\xef\xbd\x9chy_begin\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>Be "
     "brief.<\xef\xbd\x9chy_place\xe2\x96\x81holder\xe2\x96\x81no\xe2\x96\x81"
     "3\xef\xbd\x9c><\xef\xbd\x9chy_User\xef\xbd\x9c> Hi <\xef\xbd\x9chy_Assistant\xef\xbd\x9c>\n "
     "Hello! <\xef\xbd\x9chy_place\xe2\x96\x81holder\xe2\x96\x81no\xe2\x96\x81"
     "2\xef\xbd\x9c><\xef\xbd\x9chy_User\xef\xbd\x9c>\tBye "
     "\n<\xef\xbd\x9chy_Assistant\xef\xbd\x9c>"},
    {"hunyuan", &EMPTY,
     "<\xef\xbd\x9chy_begin\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c><\xef\xbd\x9chy_"
     "User\xef\xbd\x9c>Hi<\xef\xbd\x9chy_Assistant\xef\xbd\x9c>"},
    {"hunyuan-7b", &TALK_ONE, "<|startoftext|> Hi there\n<|extra_0|>"},
    {"hunyuan-7b", &LONG,
     "<|startoftext|>Be brief.<|extra_4|> Hi <|extra_0|>\n Hello! <|eos|><|startoftext|>\tBye "
     "\n<|extra_0|>"},
    {"hunyuan-7b", &NOSYS,
     "<|startoftext|> Hi <|extra_0|>\n Hello! <|eos|><|startoftext|>\tBye \n<|extra_0|>"},
    {"hunyuan-7b", &EMPTY, "<|startoftext|>Hi<|extra_0|>"},
    {"ernie4.5", &TALK_ONE, "<|begin_of_sentence|>User:  Hi there\n\nAssistant: "},
    {"ernie4.5", &LONG,
     "<|begin_of_sentence|>Be brief.\nUser:  Hi \nAssistant: \n Hello! <|end_of_sentence|>User: "
     "\tBye \n\nAssistant: "},
    {"ministral3-reasoning", &TALK_ONE,
     "<s>[SYSTEM_PROMPT]# HOW YOU SHOULD THINK AND ANSWER\n\nFirst draft your thinking process "
     "(inner monologue) until you arrive at a response. Format your response using Markdown, and "
     "use LaTeX for any mathematical equations. Write both your thoughts and the response in the "
     "same language as the input.\n\nYour thinking process must follow the template "
     "below:[THINK]Your thoughts or/and draft, like working through an exercise on scratch paper. "
     "Be as casual and as long as you want until you are confident to generate the response to the "
     "user.[/THINK]Here, provide a self-contained response.[/SYSTEM_PROMPT][INST] Hi "
     "there\n[/INST]"},
    {"ministral3-reasoning", &LONG,
     "<s>[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][INST] Hi [/INST]\n Hello! </s>[INST]\tBye "
     "\n[/INST]"},
    {"phi4-mini", &TALK_ONE, "<|user|> Hi there\n<|end|><|assistant|>"},
    {"phi4-mini", &LONG,
     "<|system|>Be brief.<|end|><|user|> Hi <|end|><|assistant|>\n Hello! <|end|><|user|>\tBye "
     "\n<|end|><|assistant|>"},
    {"qwen1.5", &TALK_ONE,
     "<|im_start|>system\nYou are a helpful assistant<|im_end|>\n<|im_start|>user\n Hi "
     "there\n<|im_end|>\n<|im_start|>assistant\n"},
    {"qwen1.5", &LONG,
     "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi "
     "<|im_end|>\n<|im_start|>assistant\n\n Hello! <|im_end|>\n<|im_start|>user\n\tBye "
     "\n<|im_end|>\n<|im_start|>assistant\n"},
    {"qwen1.5", &EMPTY,
     "<|im_start|>system\n<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"},
    {"qwen2", &TALK_ONE,
     "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n Hi "
     "there\n<|im_end|>\n<|im_start|>assistant\n"},
    {"qwen2", &LONG,
     "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi "
     "<|im_end|>\n<|im_start|>assistant\n\n Hello! <|im_end|>\n<|im_start|>user\n\tBye "
     "\n<|im_end|>\n<|im_start|>assistant\n"},
    {"qwen2", &EMPTY,
     "<|im_start|>system\n<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"},
    {"qwen2", &THINK,
     "<|im_start|>system\nYou are a helpful "
     "assistant.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\nhm\n</"
     "think>\n\n Hello! <|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n"},
    {"qwen3-think", &TALK_ONE,
     "<|im_start|>user\n Hi there\n<|im_end|>\n<|im_start|>assistant\n<think>\n"},
    {"qwen3-think", &LONG,
     "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi "
     "<|im_end|>\n<|im_start|>assistant\n\n Hello! <|im_end|>\n<|im_start|>user\n\tBye "
     "\n<|im_end|>\n<|im_start|>assistant\n<think>\n"},
    {"qwen3-think", &EMPTY,
     "<|im_start|>system\n<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<"
     "think>\n"},
    {"qwen3-think", &THINK,
     "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n Hello! "
     "<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n<think>\n"},
    {"phi4", &TALK_ONE,
     "<|im_start|>user<|im_sep|> Hi there\n<|im_end|><|im_start|>assistant<|im_sep|>"},
    {"phi4", &LONG,
     "<|im_start|>system<|im_sep|>Be brief.<|im_end|><|im_start|>user<|im_sep|> Hi "
     "<|im_end|><|im_start|>assistant<|im_sep|>\n Hello! <|im_end|><|im_start|>user<|im_sep|>\tBye "
     "\n<|im_end|><|im_start|>assistant<|im_sep|>"},
    {"phi4", &EMPTY,
     "<|im_start|>system<|im_sep|><|im_end|><|im_start|>user<|im_sep|>Hi<|im_end|><|im_start|>"
     "assistant<|im_sep|>"},
    {"deepseek", &THINK,
     "<\xef\xbd\x9c"
     "begin\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c><\xef\xbd\x9cUser\xef\xbd\x9c>Hi<"
     "\xef\xbd\x9c"
     "Assistant\xef\xbd\x9c>\n\n Hello! <\xef\xbd\x9c"
     "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c><\xef\xbd\x9cUser\xef\xbd\x9c>Bye<"
     "\xef\xbd\x9c"
     "Assistant\xef\xbd\x9c>"},
    {"deepseek-r1", &TALK_ONE,
     "<\xef\xbd\x9c"
     "begin\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c><\xef\xbd\x9cUser\xef\xbd\x9c> Hi "
     "there\n<\xef\xbd\x9c"
     "Assistant\xef\xbd\x9c><think>\n"},
    {"deepseek-r1", &LONG,
     "<\xef\xbd\x9c"
     "begin\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>Be brief.<\xef\xbd\x9cUser\xef\xbd\x9c> "
     "Hi <\xef\xbd\x9c"
     "Assistant\xef\xbd\x9c>\n Hello! <\xef\xbd\x9c"
     "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c><\xef\xbd\x9cUser\xef\xbd\x9c>\tBye "
     "\n<\xef\xbd\x9c"
     "Assistant\xef\xbd\x9c><think>\n"},
    {"deepseek-r1", &EMPTY,
     "<\xef\xbd\x9c"
     "begin\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c><\xef\xbd\x9cUser\xef\xbd\x9c>Hi<"
     "\xef\xbd\x9c"
     "Assistant\xef\xbd\x9c><think>\n"},
    {"deepseek-r1", &THINK,
     "<\xef\xbd\x9c"
     "begin\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c><\xef\xbd\x9cUser\xef\xbd\x9c>Hi<"
     "\xef\xbd\x9c"
     "Assistant\xef\xbd\x9c>\n\n Hello! <\xef\xbd\x9c"
     "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c><\xef\xbd\x9cUser\xef\xbd\x9c>Bye<"
     "\xef\xbd\x9c"
     "Assistant\xef\xbd\x9c><think>\n"},
};

Test(template_families, render_what_the_published_programs_print) {
    Tokenizer *t = byte_tokenizer(false, UINT64_MAX, false);
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        talk_check(ROWS[i].name, t, ROWS[i].talk, ROWS[i].wanted);
    tokenizer_close(t);
}

// A vocabulary without tokens for OLMo 3's <functions>.
Test(template_families, words_that_are_no_tokens_are_text) {
    static const Talk HI = {{SAY(CHAT_USER, "Hi")}};
    Tokenizer *t = byte_tokenizer(false, 0x3, false);
    talk_check("olmo3", t, &HI,
               "<|im_start|>system\nYou are a helpful function-calling AI assistant. You do not "
               "currently have access to any functions. <functions></functions><|im_end|>\n"
               "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    tokenizer_close(t);
}

// ---- detection ----

static const struct {
    const char *program; // a part of the published template
    const char *wanted;
} PROGRAMS[] = {
    {"{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not "
     "supported') }}{% endif %}{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim",
     "gemma"}, // Gemma 2's
    {"{{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content']",
     "granite"},
    {"{%- set g4_default_system_message = 'You are a helpful assistant.' %}{{- "
     "'<|start_of_role|>system<|end_of_role|>' + ns.system_message + '<|end_of_text|>\\n' }}",
     "granite"},
    {"{%- set system_message = \"Knowledge Cutoff Date: April 2024.\\nToday's Date: \" + "
     "strftime_now('%B %d, %Y') + \".\\nYou are Granite, developed by IBM.\" %}"
     "{{- '<|start_of_role|>system<|end_of_role|>' + system_message",
     "granite3"},
    {"{{- '<|start_of_role|>system<|end_of_role|>' + ns.default_system_message + "
     "'<|end_of_text|>\\n' }}",
     "granite4"},
    {"'<|im_start|>system\nYou are a helpful function-calling AI assistant. ' -}}{{- 'You do not "
     "currently have access to any functions. <functions></functions><|im_end|>\n'",
     "olmo3"},
    {"You do not currently have access to any functions. <functions></functions><|im_end|>\n"
     "{{ '<|im_start|>assistant\n<think>' }}",
     "olmo3-think"},
    {"'<|im_start|>system\nYou are Olmo, a helpful AI assistant built by Ai2. ' -}}{{- "
     "'<functions></functions><|im_end|>\n'",
     "olmo3.1"},
    {"'assistant': '[|assistant|]\\n', 'tool': '[|tool|]\\n' } %}{%- set end_of_turn = "
     "'[|endofturn|]\\n' %}{{- \"<think>\\n\\n</think>\\n\\n\" }}",
     "exaone4"},
    {"{{- '<\xef\xbd\x9chy_User\xef\xbd\x9c>' }}{{- '<\xef\xbd\x9chy_Assistant\xef\xbd\x9c>' }}",
     "hunyuan"},
    {"{% set content = '<|startoftext|>' + content + '<|extra_4|>' %}{% set content = content + "
     "'<|extra_0|>' %}",
     "hunyuan-7b"},
    {"{{- \"User: \" + message[\"content\"] + \"\\n\" -}}{{- \"Assistant: \" + "
     "message[\"content\"] + sep_token -}}",
     "ernie4.5"},
    {"default_system_message = '# HOW YOU SHOULD THINK AND ANSWER\\n\\n below:[THINK]Your "
     "thoughts' "
     "%}{{- '[SYSTEM_PROMPT]' -}}{{- '[INST]' + message['content'] + '[/INST]' }}",
     "ministral3-reasoning"},
    {"default_system_message = 'You are Ministral-3-3B-Instruct-2512' %}{{- '[SYSTEM_PROMPT]' -}}"
     "{{- '[INST]' + message['content'] + '[/INST]' }}",
     "mistral-v7-tekken"},
    {"'<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>' }}{% else %}{{ '<|' + "
     "message['role'] + '|>' + message['content'] + '<|end|>' }}",
     "phi4-mini"},
    {"{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
     "'<|im_start|>system\\nYou are a helpful assistant<|im_end|>\\n' }}{% endif "
     "%}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% "
     "endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
     "qwen1.5"},
    {"{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
     "'<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}{% endif "
     "%}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% "
     "endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
     "qwen2"},
    {"{%- if messages[0].role == 'system' %}{{- '<|im_start|>system\\n' + messages[0].content + "
     "'<|im_end|>\\n' }}{%- endif %}{%- for message in messages %}{%- if (message.role == 'user') "
     "or (message.role == 'system' and not loop.first) %}{{- '<|im_start|>' + message.role + '\\n' "
     "+ message.content + '<|im_end|>' + '\\n' }}{%- elif message.role == 'assistant' %}{%- set "
     "content = message.content %}{%- if '</think>' in content %}{%- set content = "
     "content.split('</think>')[-1].lstrip('\\n') %}{%- endif %}{{- '<|im_start|>' + message.role "
     "+ '\\n' + content }}{{- '<|im_end|>\\n' }}{%- endif %}{%- endfor %}{%- if "
     "add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{%- endif %}",
     "qwen3-think"},
    {"{% for message in messages %}{% if (message['role'] == 'system') "
     "%}{{'<|im_start|>system<|im_sep|>' + message['content'] + '<|im_end|>'}}{% elif "
     "(message['role'] == 'user') %}{{'<|im_start|>user<|im_sep|>' + message['content'] + "
     "'<|im_end|>'}}{% elif (message['role'] == 'assistant') %}{{'<|im_start|>assistant<|im_sep|>' "
     "+ message['content'] + '<|im_end|>'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ "
     "'<|im_start|>assistant<|im_sep|>' }}{% endif %}",
     "phi4"},
    {"{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif "
     "%}{% set ns = namespace(system_prompt='') %}{%- for message in messages %}{%- if "
     "message['role'] == 'system' %}{% set ns.system_prompt = message['content'] %}{%- endif %}{%- "
     "endfor %}{{bos_token}}{{ns.system_prompt}}{%- for message in messages %}{%- if "
     "message['role'] == 'user' %}{{'<\xef\xbd\x9cUser\xef\xbd\x9c>' + message['content']}}{%- "
     "endif %}{%- if message['role'] == 'assistant' %}{% set content = message['content'] %}{% if "
     "'</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif "
     "%}{{'<\xef\xbd\x9c"
     "Assistant\xef\xbd\x9c>' + content + '<\xef\xbd\x9c"
     "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>'}}{%- endif %}{%- endfor -%}{% if "
     "add_generation_prompt %}{{'<\xef\xbd\x9c"
     "Assistant\xef\xbd\x9c>'}}{% endif %}",
     "deepseek"},
    {"{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif "
     "%}{% set ns = namespace(system_prompt='') %}{%- for message in messages %}{%- if "
     "message['role'] == 'system' %}{% set ns.system_prompt = message['content'] %}{%- endif %}{%- "
     "endfor %}{{bos_token}}{{ns.system_prompt}}{%- for message in messages %}{%- if "
     "message['role'] == 'user' %}{{'<\xef\xbd\x9cUser\xef\xbd\x9c>' + message['content']}}{%- "
     "endif %}{%- if message['role'] == 'assistant' %}{% set content = message['content'] %}{% if "
     "'</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif "
     "%}{{'<\xef\xbd\x9c"
     "Assistant\xef\xbd\x9c>' + content + '<\xef\xbd\x9c"
     "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>'}}{%- endif %}{%- endfor -%}{% if "
     "add_generation_prompt %}{{'<\xef\xbd\x9c"
     "Assistant\xef\xbd\x9c><think>\\n'}}{% endif %}",
     "deepseek-r1"},
    {"{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
     "'<|im_start|>system\\nYou are Hermes.<|im_end|>\\n' }}{% endif %}{{'<|im_start|>' + "
     "message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if "
     "add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
     "none"}, // a system message that no row has
    {"{% for m in messages %}{{ '<|role|>' + m.content }}{% endfor %}",
     "none"}, // a program that no row knows
    {"'<|im_start|>system\\nYou are a helpful assistant.<|im_end|>' '<|im_start|>assistant"
     "\\n<think>\\n'",
     "none"}, // Qwen 2's message, and thoughts
    {"'<|im_start|>system<|im_sep|>You are Phi' + '<|im_sep|>'", "none"},
    {"'<|im_start|>system\\n\\n\xe4\xbd\xa0'", "none"},
};

static const char *detected(uint64_t markers, const char *program, const char *family) {
    Tokenizer *t = byte_tokenizer(false, markers, false);
    TextSpan text = {program, program ? strlen(program) : 0};
    const ChatTemplate *found = chat_template_detect(t, text, family);
    const char *name = found ? chat_template_name(found) : "none";
    tokenizer_close(t);
    return name;
}

Test(template_families, are_known_by_their_programs) {
    for (size_t i = 0; i < sizeof PROGRAMS / sizeof *PROGRAMS; i++)
        CHECK_STRING(detected(UINT64_MAX, PROGRAMS[i].program, "llama"), PROGRAMS[i].wanted);
}

// What is no time is not taken for the first of January 1970.
Test(template_families, a_date_is_that_of_source_date_epoch_or_an_error) {
    static const struct {
        const char *time, *date; // NULL: exit code 2
    } CASES[] = {{"0", "01 January 1970"},
                 {"1738540800", "03 February 2025"},
                 {"253402300799", "31 December 9999"},
                 {"253402300800", NULL},
                 {"18446744073709551615", NULL},
                 {"99999999999999999999", NULL},
                 {"-1", NULL},
                 {"1.5", NULL},
                 {"abc", NULL}};
    static const ChatMessage HI = SAY(CHAT_USER, "Hi");
    const ChatTemplate *format = chat_template_by_name("smollm3");
    Tokenizer *t = byte_tokenizer(false, UINT64_MAX, false);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Error error = {0};
        IdList ids = {0};
        setenv("SOURCE_DATE_EPOCH", CASES[i].time, 1);
        bool good = chat_template_render(format, t, &ids, &HI, 1, &error);
        CHECK(good == (CASES[i].date != NULL), "%s: %s", CASES[i].time, error.message);
        if (good)
            CHECK(strstr(byte_tokenizer_text(t, &ids), CASES[i].date), "%s: %s", CASES[i].time,
                  byte_tokenizer_text(t, &ids));
        else
            CHECK(error.code == ERROR_USAGE && strstr(error.message, CASES[i].time), "%s",
                  error.message);
        id_list_free(&ids);
    }
    tokenizer_close(t);
}

// The bit of a marker of the byte tokenizer.
static uint64_t bit(const char *marker) {
    size_t i = 0;
    while (i < BYTE_MARKERS && strcmp(byte_tokenizer_marker(i), marker))
        i++;
    CHECK(i < BYTE_MARKERS, "no marker %s", marker);
    return (uint64_t)1 << i;
}

Test(template_families, are_known_by_their_tokens_without_a_program) {
    static const char *const CASES[][4] = {
        {"<|start_of_role|>", "<|end_of_role|>", "granitemoehybrid", "granite"},
        {"<|im_start|>", "<|im_end|>", "olmo3", "olmo3"},
        {"[|assistant|]", "[|endofturn|]", "exaone4", "exaone4"},
        {"<\xef\xbd\x9chy_User\xef\xbd\x9c>", "<\xef\xbd\x9chy_Assistant\xef\xbd\x9c>", "hunyuan",
         "hunyuan"},
        {"<|extra_0|>", "<|extra_4|>", "hunyuan", "hunyuan-7b"},
        {"<|extra_0|>", "<|extra_4|>", "llama", "none"},
        {"<|begin_of_sentence|>", "<|end_of_sentence|>", "ernie4_5", "ernie4.5"},
        {"<|begin_of_sentence|>", "<|end_of_sentence|>", "llama", "none"},
        {"<|/tool|>", "<|end|>", "phi3", "phi4-mini"},
        {"<|user|>", "<|end|>", "phi3", "phi3"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *const *c = CASES[i];
        CHECK_STRING(detected(bit(c[0]) | bit(c[1]), NULL, c[2]), c[3]);
    }
}
