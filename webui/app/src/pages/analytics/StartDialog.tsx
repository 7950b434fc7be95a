import { useState } from "react";
import type { Places, Run } from "../../api/analytics";
import { api } from "../../api/client";
import { FormDialog, toast } from "../../components";
import { navigate } from "../../router";
import { JobFields } from "./JobFields";
import { emptyJob, FormError, jobOf, problemsOf, type JobForm, type Problems } from "./jobForm";

interface StartDialogProps {
  places: Places | null;
  /** What it is filled with; otherwise with what is usual. */
  initial?: JobForm;
  onClose: () => void;
}

/** Asks what to analyse, starts it, and goes to its page. */
export function StartDialog({ places, initial, onClose }: StartDialogProps) {
  const [form, setForm] = useState<JobForm>(initial ?? emptyJob(places));
  const [problems, setProblems] = useState<Problems<JobForm>>({});
  const start = async (): Promise<void> => {
    const wanted = jobOf(form);
    setProblems("problems" in wanted ? wanted.problems : {});
    if ("problems" in wanted) throw new FormError();
    try {
      const { data } = await api.post<Run>("/analytics/runs", wanted.job);
      toast.ok("The analysis is started.");
      navigate(`/analytics/${data.id}`);
    } catch (error) {
      const found = problemsOf(error);
      if (found === null) throw error;
      setProblems(found);
      throw new FormError();
    }
  };
  return (
    <FormDialog title="New analysis" submit="Start" wide onClose={onClose} onSubmit={start}>
      <JobFields
        form={form}
        problems={problems}
        places={places}
        set={(changes) => setForm((before) => ({ ...before, ...changes }))}
      />
    </FormDialog>
  );
}
