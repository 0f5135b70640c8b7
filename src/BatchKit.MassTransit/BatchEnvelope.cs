namespace BatchKit.MassTransit;

/// <summary>The message that crosses a MassTransit bus: one frame, which is the batches of one send for one destination.</summary>
/// <remarks>
/// Its body on the wire is the frame itself, with the content type <c>application/vnd.batchkit.frame</c> and no envelope around it. Only
/// <see cref="MassTransitReceiver"/> consumes it; an application's own consumers never see it.
/// </remarks>
public sealed class BatchEnvelope
{
    internal BatchEnvelope(byte[] frame) => Bytes = frame;

    /// <summary>The frame's bytes. Valid for as long as the message is.</summary>
    public ReadOnlyMemory<byte> Frame => Bytes;

    internal byte[] Bytes { get; }
}
