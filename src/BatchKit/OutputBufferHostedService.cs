using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit;

/// <summary>Owns a buffer's drain: makes the buffer at the host's start, so that what is wrong with it shows there, and drains it at the stop.</summary>
internal sealed class OutputBufferHostedService(IServiceProvider services, string name) : IHostedService
{
    private OutputBuffer? _output;

    public Task StartAsync(CancellationToken cancellationToken)
    {
        _output = services.GetRequiredKeyedService<OutputBuffer>(name);
        return Task.CompletedTask;
    }

    public Task StopAsync(CancellationToken cancellationToken) => _output?.StopAsync(cancellationToken) ?? Task.CompletedTask;
}
