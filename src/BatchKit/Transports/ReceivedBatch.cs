namespace BatchKit.Transports;

/// <summary>A batch that was read from a frame or made by hand: its memory is its maker's.</summary>
internal sealed class ReceivedBatch : MessageBatch;
