using BatchKit.Broadcast;

namespace BatchKit.EdgeWorker;

/// <summary>Answers each line with it, and a line "flood" with more than sockets take.</summary>
internal sealed class Answerer(ClientConnection connection, IOutputBuffer output) : IConnectionHandler
{
    private const int FloodBlocks = 256;

    private static readonly string Block = new('x', 32 * 1024);

    public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        foreach (var record in records.Span)
        {
            var text = record.GetText();
            for (var block = 0; text == "flood" && block < FloodBlocks; block++)
                output.Write(connection.Handle, Block);
            output.Write(connection.Handle, $"{text}\r\n");
        }

        return default;
    }
}
