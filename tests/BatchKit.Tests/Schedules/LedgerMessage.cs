using System.Buffers.Binary;

namespace BatchKit.Tests.Schedules;

/// <summary>A message as its writer knows it.</summary>
internal sealed class LedgerMessage(int id, int handle, int bytes, bool isPrompt, long start)
{
    public int Id { get; } = id;

    public int Handle { get; } = handle;

    public int Bytes { get; } = bytes;

    public bool IsPrompt { get; } = isPrompt;

    /// <summary>When its write was called.</summary>
    public long Start { get; } = start;

    /// <summary>When its write had certainly happened: it returned, or the message was seen in a send.</summary>
    public long End { get; set; } = long.MaxValue;

    /// <summary>Null while its write has not ended.</summary>
    public bool? IsAccepted { get; set; }

    /// <summary>One bit for each route that the transport acknowledged it on.</summary>
    public int AcknowledgedRoutes { get; set; }

    /// <summary>One bit for each route that it was delivered on.</summary>
    public int DeliveredRoutes { get; set; }

    public bool WasSent { get; set; }

    public byte[] Payload()
    {
        var payload = new byte[Bytes];
        BinaryPrimitives.WriteInt32LittleEndian(payload, Id);
        payload.AsSpan(sizeof(int)).Fill((byte)Id);
        return payload;
    }
}
