using BatchKit.Testing;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.Tests;

/// <summary>A transport whose creation needs the buffer that it is created for.</summary>
public sealed class OutputBufferFactoryTests
{
    private readonly ServiceCollection _services = new();
    private readonly CollectingTransport _transport = new();

    [Fact]
    public void A_transport_that_asks_for_its_own_buffer_is_told_of_a_circle()
    {
        _services.AddBatchKit().UseLocal(services =>
        {
            services.GetRequiredService<IOutputBuffer>();
            return _transport;
        });
        using var provider = _services.BuildServiceProvider();

        var exception = Assert.Throws<InvalidOperationException>(() => provider.GetRequiredService<IOutputBuffer>());

        // From Microsoft.Extensions 11 on the container finds the circle.
        Assert.Contains("circular dependency", exception.Message, StringComparison.Ordinal);
        Assert.Contains(nameof(OutputBuffer), exception.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void A_transport_that_asks_for_its_own_buffer_is_told_so_where_the_container_finds_no_circle()
    {
        var builder = _services.AddBatchKit();
        var factory = new OutputBufferFactory(builder);
        builder.UseLocal(services =>
        {
            factory.Create(services);
            return _transport;
        });
        using var provider = _services.BuildServiceProvider();

        var exception = Assert.Throws<InvalidOperationException>(() => factory.Create(provider));

        Assert.Contains("while its own transports", exception.Message, StringComparison.Ordinal);
    }
}
