using System.Buffers;
using Microsoft.AspNetCore.Connections;

namespace BatchKit.Benchmarks.EchoServers;

/// <summary>Sends a connection's records back, with a flush for each.</summary>
public sealed class PipeEcho : ConnectionHandler
{
    /// <inheritdoc/>
    public override async Task OnConnectedAsync(ConnectionContext connection)
    {
        var (input, output) = (connection.Transport.Input, connection.Transport.Output);
        try
        {
            while (await input.ReadAsync(connection.ConnectionClosed) is { IsCompleted: false, Buffer: var buffer })
            {
                while (TryCut(ref buffer, out var record))
                {
                    foreach (var part in record)
                        output.Write(part.Span);
                    await output.FlushAsync(connection.ConnectionClosed);
                }

                input.AdvanceTo(buffer.Start, buffer.End);
            }
        }
        catch (OperationCanceledException)
        {
            // The load is gone.
        }
    }

    private static bool TryCut(ref ReadOnlySequence<byte> buffer, out ReadOnlySequence<byte> record)
    {
        record = default;
        var reader = new SequenceReader<byte>(buffer);
        if (!reader.TryReadBigEndian(out int length) || buffer.Length < Records.PrefixBytes + length)
            return false;
        record = buffer.Slice(0, Records.PrefixBytes + length);
        buffer = buffer.Slice(record.End);
        return true;
    }
}
