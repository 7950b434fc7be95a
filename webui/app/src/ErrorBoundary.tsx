import { Component, type ReactNode } from "react";
import { ErrorState } from "./components/notices";

/** A page that fails while it is drawn says so; the rest of the console stays. */
export class ErrorBoundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: null as unknown };

  static getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error };
  }

  override render(): ReactNode {
    if (this.state.error === null) return this.props.children;
    return <ErrorState error={this.state.error} onRetry={() => location.reload()} />;
  }
}
