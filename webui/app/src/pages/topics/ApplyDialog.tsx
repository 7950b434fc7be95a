import { useEffect, useState } from "react";
import { api, ApiError } from "../../api/client";
import type { OrderPreview } from "../../api/types";
import { Banner, Button, Dialog, ErrorState, FormDialog, Skeleton, toast } from "../../components";
import { formatCount, formatDecimal } from "../../lib/numbers";
import type { Arrangement } from "../../lib/order";
import { MoveLine } from "./OrderHistory";
import type { OrderDraft } from "./useOrderDraft";

/** What applying would do, and the button that does it. */
export function ApplyDialog({ order, onClose }: { order: OrderDraft; onClose: () => void }) {
  // Both belong together: what is applied is what was looked at, on the order that it was looked at.
  const [wanted] = useState({ stages: order.draft, etag: order.resource.etag });
  const preview = usePreview(wanted.stages);

  if (preview.isStale) {
    const look = (): void => {
      void order.resource.reload();
      onClose();
    };
    return (
      <Dialog title="The order has changed" onClose={look}>
        <p>
          Somebody else changed the order while you looked at the preview, so nothing was applied. Your moves are kept
          and now stand on the new order.
        </p>
        <div className="dialog-actions">
          <Button variant="primary" onClick={look}>
            Look at the new order
          </Button>
        </div>
      </Dialog>
    );
  }
  const apply = async (): Promise<void> => {
    try {
      const { data } = await api.put<{ order_epoch: string }>(
        "/order",
        { stages: wanted.stages },
        { ifMatch: wanted.etag },
      );
      order.discard();
      await order.resource.reload();
      toast.ok(`The new order holds: order epoch ${formatCount(data.order_epoch)}.`);
    } catch (error) {
      if (!(error instanceof ApiError && error.isStale)) throw error;
      preview.setStale();
      throw error;
    }
  };
  return (
    <FormDialog
      title="Apply this order?"
      submit="Apply"
      disabled={!preview.data}
      wide
      onClose={onClose}
      onSubmit={apply}
    >
      {preview.error !== null ? (
        <ErrorState error={preview.error} />
      ) : preview.data ? (
        <Preview preview={preview.data} />
      ) : (
        <Skeleton />
      )}
    </FormDialog>
  );
}

function usePreview(stages: Arrangement) {
  const [data, setData] = useState<OrderPreview | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isStale, setIsStale] = useState(false);
  useEffect(() => {
    const controller = new AbortController();
    api
      .post<OrderPreview>("/order/preview", { stages }, { signal: controller.signal })
      .then((answer) => setData(answer.data))
      .catch((failure: unknown) => controller.signal.aborted || setError(failure));
    return () => controller.abort();
  }, [stages]);
  return { data, error, isStale, setStale: () => setIsStale(true) };
}

function Preview({ preview }: { preview: OrderPreview }) {
  const { moves, moves_total, expected_stages_per_event: expected, rates_known, warnings } = preview;
  const isBetter = expected.then < expected.now;
  const tone = expected.then === expected.now ? "" : isBetter ? "tone-ok" : "tone-warn";
  return (
    <>
      <div className="visits">
        <span className="muted">Stages that a timestamp visits, in the mean</span>
        <span className="visits-values num">
          {formatDecimal(expected.now)} → <b className={tone}>{formatDecimal(expected.then)}</b>
        </span>
        <span className="muted small">
          {rates_known ? "weighted by the rates of the last seconds" : "rates are not known: all topics count alike"}
        </span>
      </div>
      {warnings.map((warning) => (
        <Banner key={warning} tone="warn">
          <p className="sentence">{warning}</p>
        </Banner>
      ))}
      <section>
        <h3>{moves_total === 1 ? "1 topic moves" : `${formatCount(moves_total)} topics move`}</h3>
        <ul className="moves preview-moves">
          {moves.map((move) => (
            <li key={move.topic.id}>
              <MoveLine move={move} />
            </li>
          ))}
          {moves_total > moves.length && <li className="muted">and {formatCount(moves_total - moves.length)} more</li>}
        </ul>
      </section>
    </>
  );
}
