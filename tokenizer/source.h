// Finding a tokenizer in a file or a directory: the content decides which kind it is.
#pragma once

#include "tokenizer/kinds.h"

// Fills `tokenizer` (zeroed) from source->path. False: exit code 3 or 4 with the path in front, 5.
bool tokenizer_open_path(Tokenizer *tokenizer, const TokenizerSource *source, Error *error);
