// Joins the projection kernels of one instruction set into its table.
#include "kernels/cpu/lanes/project.h"

static void panels(const PanelWork *work) {
    if (panel_is_float(work->matrix->dtype))
        ISA_NAME(project_float)(work);
    else
        ISA_NAME(project_quantised)(work);
}

extern const ProjectKernels ISA_NAME(project_kernels);
const ProjectKernels ISA_NAME(project_kernels) = {
    .block_rows = BLOCK_ROWS,
    .quantise = ISA_NAME(quantise_block),
    .panels = panels,
};
