namespace BatchKit.MassTransit;

/// <summary>A batch needs a larger frame than may be.</summary>
internal sealed class FrameTooLargeException(int maxBytes)
    : Exception($"A batch needs a frame of more than {nameof(MassTransitOptions.MaxFrameBytes)} ({maxBytes}) bytes.");
