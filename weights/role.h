// Role: what a tensor is for, whatever it is called.
#pragma once

typedef enum Role {
    ROLE_NONE, // ends a list
    ROLE_EMBEDDING,
    ROLE_POSITION,
    ROLE_EMBEDDING_NORM,
    ROLE_FINAL_NORM,
    ROLE_FINAL_NORM_BIAS,
    ROLE_HEAD,
    ROLE_ROPE_DIVISORS,
    ROLE_ATT_NORM,
    ROLE_ATT_NORM_BIAS,
    ROLE_WQ,
    ROLE_WK,
    ROLE_WV,
    ROLE_WO,
    ROLE_BQ,
    ROLE_BK,
    ROLE_BV,
    ROLE_BO,
    ROLE_Q_NORM,
    ROLE_K_NORM,
    ROLE_ATT_POST_NORM,
    ROLE_FFN_NORM,
    ROLE_FFN_NORM_BIAS,
    ROLE_W_GATE,
    ROLE_W_UP,
    ROLE_W_DOWN,
    ROLE_B_UP,
    ROLE_B_DOWN,
    ROLE_FFN_POST_NORM,
    ROLE_COUNT
} Role;
