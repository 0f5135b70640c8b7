using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.TestSupport;

/// <summary>Frames as a thief at the broker has them: signed, and recorded on their way.</summary>
public static class SignedFrames
{
    public static byte[] Key { get; } = Some.RandomBytes(FrameSigner.MinKeyBytes);

    /// <summary>A genuine frame for the receiver of a node.</summary>
    public static byte[] For(int node, string text) => Sign(FrameDestination.Of(Some.Connection(node), destinationNode: null), text);

    /// <summary>A genuine frame for the receivers of all nodes.</summary>
    public static byte[] ForAll(string text) => Sign(FrameDestination.All, text);

    private static byte[] Sign(FrameDestination destination, string text)
    {
        using var frame = PooledFrame.Encode([Some.Batch(Some.Connection(), Some.Producer(), 1, text)], new FrameSigner(Key), destination: destination);
        return frame.Bytes.ToArray();
    }
}
