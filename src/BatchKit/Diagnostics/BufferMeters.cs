using System.Diagnostics.Metrics;

namespace BatchKit.Diagnostics;

/// <summary>Creates meters with a buffer's name, so that the same instruments of several buffers are told apart.</summary>
internal sealed class BufferMeters(IMeterFactory inner, string buffer) : IMeterFactory
{
    /// <summary>Null where the services have no meters.</summary>
    public static IMeterFactory? Of(IMeterFactory? inner, string buffer) => inner is null ? null : new BufferMeters(inner, buffer);

    public Meter Create(MeterOptions options)
    {
        options.Tags = [new("batchkit.buffer", buffer), .. options.Tags ?? []];
        return inner.Create(options);
    }

    public void Dispose()
    {
        // The services end the inner one.
    }
}
