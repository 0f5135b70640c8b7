using Microsoft.Extensions.Options;

namespace BatchKit.Broadcast;

/// <summary>Checks the options by their attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class BroadcastOptionsValidator : IValidateOptions<BroadcastOptions>
{
    private static readonly BroadcastOptionsValidator Shared = new();

    public static void ThrowIfInvalid(BroadcastOptions options)
    {
        var result = Shared.Validate(Options.DefaultName, options);
        if (result.Failed)
            throw new OptionsValidationException(Options.DefaultName, typeof(BroadcastOptions), result.Failures);
    }
}
