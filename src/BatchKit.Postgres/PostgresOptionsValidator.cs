using Microsoft.Extensions.Options;

namespace BatchKit.Postgres;

/// <summary>Checks the options by their attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class PostgresOptionsValidator : IValidateOptions<PostgresOptions>
{
    private static readonly PostgresOptionsValidator Shared = new();

    public static void ThrowIfInvalid(PostgresOptions options)
    {
        var result = Shared.Validate(Options.DefaultName, options);
        if (result.Failed)
            throw new OptionsValidationException(Options.DefaultName, typeof(PostgresOptions), result.Failures);
    }
}
